"""An error of a module of one's own is named as that, with its file and line, and not as a defect of changefeed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from changefeed import cli

_HEAD = """\
import json

from changefeed.model.names import names_of
from changefeed.sources.section import ChangesSection


class Toy(ChangesSection):
    type: str

    @property
    def reads(self):
        return "nothing"


SECTION = Toy


def open_changes(section):
    return opened(section)


def opened(section):
"""
_LINE = _HEAD.count("\n") + 1


def run(folder: Path, module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The error of a run whose source is a module with this text."""
    package = f"own_{abs(hash(str(folder)))}"
    (folder / package).mkdir()
    (folder / package / "__init__.py").touch()
    (folder / package / "toy.py").write_text(module)
    (folder / "pipeline.yaml").write_text(
        f"source: {{type: {package}.toy}}\n"
        "sink: {type: files, path: out, protocol: {name: debezium-mysql, topic.prefix: up}}\n"
        "pipeline: {name: p, folder: state}\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    code = cli.run(["run", str(folder / "pipeline.yaml"), "--once"])
    for name in [name for name in sys.modules if name.startswith(package)]:
        del sys.modules[name]
    shown = capsys.readouterr().err
    assert code == 1, shown
    return shown.replace(str(folder / package), "").replace(package, "own").strip()


@pytest.mark.parametrize(
    "line, message",
    [
        ("1 / 0", "ZeroDivisionError: division by zero. It was raised in"),
        ("json.loads('')", "JSONDecodeError: Expecting value: line 1 column 1 (char 0). It was raised in"),
        (
            "names_of(None)",
            "TypeError: expected string or bytes-like object, got 'NoneType'. It was raised by changefeed, in a call of",
        ),
    ],
)  # fmt: skip
def test_an_error_in_a_module_of_ones_own(
    line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = run(tmp_path, f"{_HEAD}    {line}\n", monkeypatch, capsys)
    assert error.endswith(f"error: {message} own.toy (/toy.py:{_LINE}); --traceback shows where")


@pytest.mark.parametrize("line, message", [("1 / 0", "division by zero"), ("1 +", "invalid syntax (toy.py, line 2)")])
def test_a_module_of_ones_own_that_cannot_be_imported(
    line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = run(tmp_path, f"import json\n{line}\n", monkeypatch, capsys)
    assert error.endswith(f"{message}. It was raised in own.toy (/toy.py:2); --traceback shows where")
