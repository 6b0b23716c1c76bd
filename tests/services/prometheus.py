"""A Prometheus of the tests' own: it scrapes some addresses each second, and evaluates rules."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.services.processes import free_ports, stop, tail


class Prometheus:
    """A server with one job, `changefeed`.

    Args:
        targets: `host:port` of what it scrapes.
        rules: the content of a file of rules.
    """

    def __init__(self, targets: list[str], rules: Mapping[str, Any]) -> None:
        self._targets, self._rules = targets, rules

    def __enter__(self) -> Prometheus:
        self._folder = Path(tempfile.mkdtemp(prefix="changefeed-prometheus-"))
        (self._folder / "rules.yml").write_text(json.dumps(self._rules))  # JSON is YAML
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(self._folder / "rules.yml")],
            "scrape_configs": [{"job_name": "changefeed", "static_configs": [{"targets": self._targets}]}],
        }
        (self._folder / "prometheus.yml").write_text(json.dumps(config))
        [port] = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        log = self._folder / "log"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [
                    "prometheus", f"--config.file={self._folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self._folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                self.query("up")
                return self
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.2)
        self.__exit__(None, None, None)
        raise RuntimeError(f"Prometheus did not start:\n{tail(log.read_text()) if log.exists() else ''}")

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        stop(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result of an expression now: `{"metric": labels, "value": [time, text]}` for each series."""
        result: list[dict[str, Any]] = self._ask("query", query=expression)["result"]
        return result

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        return {alert["labels"]["alertname"] for alert in self._ask("alerts")["alerts"] if alert["state"] == "firing"}

    def _ask(self, what: str, **parameters: str) -> Any:
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]
