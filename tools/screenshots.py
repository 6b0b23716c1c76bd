#!/usr/bin/env python3
"""Makes the pictures of the documentation: `screenshots.py [--monitor FOLDER] [--site BUILT FOLDER]`, with Debian's chromium.

--monitor   runs both bundled histories as pipelines, and takes pictures of `changefeed monitor` over them: docs/images
--site      takes pictures of the built site: `make site`, then `--site build/site build/screenshots`

Each picture is taken light and dark, as WebP of less than 150 kB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.example_files import copy_examples  # noqa: E402  the path comes first
from tests.services.chromium import Chromium  # noqa: E402
from tests.services.processes import stop  # noqa: E402

WIDTH, HEIGHT, LARGEST = 1200, 760, 150_000
_CHANGEFEED = [sys.executable, "-m", "changefeed.cli"]
_SMALL_STEPS = "max-records-per-batch: 60"  # more steps than the demo has, for the charts
SITE = {
    "site": "index.html",
    "site-guide": "docs/guides/concepts.html",
    "site-reference": "docs/reference/pipeline.html",
}


@contextmanager
def monitor(folder: Path) -> Iterator[dict[str, str]]:
    """Runs the bundled histories, serves `changefeed monitor` over them, and yields name of a picture -> address."""
    examples = copy_examples(folder)
    shop = examples / "shop/pipeline.yaml"
    shop.write_text(shop.read_text().replace("max-records-per-batch: 500", _SMALL_STEPS), encoding="utf-8")
    for name in ("shop", "debezium"):
        command = [*_CHANGEFEED, "run", str(examples / name / "pipeline.yaml"), "--once"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    command = [*_CHANGEFEED, "monitor", str(examples), "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        with urllib.request.urlopen(f"{url}overview.json") as answer:
            ids = {one["name"]: one["id"] for one in json.load(answer)["pipelines"]}
        own = f"{url}pipelines/{ids['shop']}"
        yield {"monitor-overview": url, "monitor-pipeline": own}
    finally:
        stop(process)
        if process.stdout is not None:
            process.stdout.close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing."""


@contextmanager
def site(built: Path) -> Iterator[dict[str, str]]:
    """Serves a built site, and yields name of a picture -> address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(built)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield {name: f"http://127.0.0.1:{server.server_port}/{page}" for name, page in SITE.items()}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def take(addresses: Mapping[str, str], folder: Path) -> None:
    """Writes `<name>-light.webp` and `<name>-dark.webp` of each address.

    Raises:
        ValueError: a picture is larger than LARGEST.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        with Chromium() as browser:  # a new one each time: the site remembers the scheme
            for name, address in addresses.items():
                browser.open(address, WIDTH, HEIGHT, dark=scheme == "dark")
                picture = folder / f"{name}-{scheme}.webp"
                browser.screenshot(picture, "webp")
                if picture.stat().st_size > LARGEST:
                    raise ValueError(f"{picture} has {picture.stat().st_size} bytes, more than {LARGEST}")
                print(picture)


def main() -> None:
    """Takes the pictures that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--monitor", type=Path, metavar="FOLDER")
    parser.add_argument("--site", type=Path, nargs=2, metavar=("BUILT", "FOLDER"))
    options = parser.parse_args()
    if options.monitor:
        with tempfile.TemporaryDirectory() as temporary, monitor(Path(temporary)) as addresses:
            take(addresses, options.monitor)
    if options.site:
        with site(options.site[0]) as addresses:
            take(addresses, options.site[1])


if __name__ == "__main__":
    main()
