"""The package as a user installs it: a wheel and pip, in an empty environment, away from the repository's sources."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.example_files import copy_examples

ROOT = Path(__file__).parents[1]
_TUTORIAL = """
import doctest, changefeed
print(changefeed.__file__)
result = doctest.testmod(changefeed, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
assert result.attempted and not result.failed
"""
_CORE = """
import changefeed as cf
assert sum(1 for _ in cf.read("examples/shop/history.jsonl.gz", "ticdc-open")) == 948
try:
    cf.Pipeline.load("examples/shop/pipeline.yaml").run(once=True)
except cf.MissingExtraError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this folder."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_has_the_package_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    inside = {name for name in names if not name.startswith("changefeed-")}
    sources = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "changefeed").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and "vectors" not in path.parts
    }
    assert inside == sources
    assert {"changefeed/py.typed", "changefeed/spark_runtime/log4j2.properties", "changefeed/api/logs.py"} <= inside
    of_page = {
        name for name in inside if name.startswith(("changefeed/monitor/templates/", "changefeed/monitor/static/"))
    }
    assert {Path(name).suffix for name in of_page} == {".html", ".css", ".js"}
    assert {
        name for name in inside - of_page if Path(name).suffix not in (".py", ".md", ".properties", ".typed")
    } == set()


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < 1_500_000


@pytest.mark.heavy
@pytest.mark.slow
def test_without_extras_logs_are_listed_decoded_encoded_detected_and_translated(wheel: Path, tmp_path: Path) -> None:
    copy_examples(tmp_path)
    uv = [sys.executable, "-m", "uv", "--quiet"]
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    subprocess.run([*uv, "venv", "--python", sys.executable, str(tmp_path / "venv")], env=env, check=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [*uv, "pip", "install", "--python", str(python), "--constraint", str(_versions(tmp_path)), str(wheel)]
    subprocess.run(install, env=env, check=True)

    def changefeed(*args: str) -> bytes:
        command = [str(python), "-m", "changefeed.cli", *args]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    log, open_protocol = "examples/shop/history.jsonl.gz", ("--protocol", "ticdc-open")
    assert b"debezium-mysql" in changefeed("list")
    assert b"ticdc-open" in changefeed("detect", log)
    events = changefeed("decode", log, *open_protocol, "--json")
    (tmp_path / "events.jsonl").write_bytes(events)
    changefeed("encode", "events.jsonl", *open_protocol, "--out", "again.jsonl")
    assert changefeed("decode", "again.jsonl", *open_protocol, "--json") == events
    target = ("--to", "tencent-dts", "--allow-loss", "resolved", "--out", "dts.jsonl")
    changefeed("transcode", log, "--from", "ticdc-open", *target)
    assert b"shop.orders" in changefeed("decode", "dts.jsonl", "--protocol", "tencent-dts")


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.xdist_group("processes")
def test_an_installed_package_does_the_tutorial_and_the_demo(wheel: Path, tmp_path: Path) -> None:
    examples = copy_examples(tmp_path)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"

    def run(*args: object) -> str:
        env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        env["PATH"] = f"{python.parent}{os.pathsep}{env['PATH']}"
        command = [str(python), *map(str, args)]
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, encoding="utf-8", check=False
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", _versions(tmp_path))
    run(*install, wheel)
    assert run("-c", _CORE).strip().endswith("pip install 'changefeed[spark]'")
    run(*install, f"{wheel}[spark]", *sorted((ROOT / "build" / "kernel-wheels").glob("*.whl")))
    printed = run("-c", _TUTORIAL)
    assert printed.startswith(str(tmp_path / "venv"))
    for made in ("copy.parquet", "dts.jsonl.gz"):
        assert (tmp_path / made).is_file()
    assert "705 rows and 13 schema changes applied" in run(examples / "demo.py")


def _versions(folder: Path) -> Path:
    """The locked versions without hashes, which pip would also require for the wheels that are built here."""
    locked = re.findall(
        r"^[a-z0-9-]+==[^\s;\\]+(?: ;[^\\\n]*)?", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    )
    file = folder / "versions.txt"
    file.write_text("\n".join(locked))
    return file
