"""`-o dispatchers=FILE`: files with dispatcher rules, the forms they may have, and files that are refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from changefeed.cli import run
from changefeed.record_log import read

LOG = Path(__file__).parent.parent / "data" / "shop" / "ticdc-open" / "open-1.classic.jsonl.gz"
RULES = [
    {"matcher": ["SHOP.orders"], "topic": "orders", "partition": "index-value"},
    {"matcher": ["shop.*"], "topic": "rest"},
]
TOML = """
case-sensitive = {sensitive}
[sink]
protocol = "open-protocol"
dispatchers = [
  {{matcher = ["SHOP.orders"], topic = "orders", partition = "index-value"}},
  {{matcher = ["shop.*"], topic = "rest"}},
]
"""


def _topics(tmp_path: Path, *options: str) -> Counter[str]:
    out = tmp_path / "out.jsonl"
    pairs = [word for option in options for word in ("-O", option)]
    command = ["transcode", str(LOG), "--from", "ticdc-open", "--to", "ticdc-open", *pairs, "-O", "topic=other"]
    assert run([*command, "-O", "partition-num=3", "--out", str(out), "--force"]) == 0
    return Counter(topic for batch in read(out) for topic in batch.column("topic").to_pylist())


@pytest.mark.parametrize(
    "name, text",
    [
        ("changefeed.toml", TOML.format(sensitive="false")),
        ("rules.json", json.dumps(RULES)),
        ("rules.json", json.dumps({"dispatchers": RULES})),
        ("changefeed.json", json.dumps({"case_sensitive": False, "sink": {"dispatchers": RULES}})),
    ],
)
def test_rules_of_a_file(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert set(_topics(tmp_path, f"dispatchers={tmp_path / name}")) == {"orders", "rest", "other"}


def test_case_sensitive_comes_from_the_file_unless_the_command_line_sets_it(tmp_path: Path) -> None:
    file = tmp_path / "changefeed.toml"
    file.write_text(TOML.format(sensitive="true"))
    assert "orders" not in _topics(tmp_path, f"dispatchers={file}")
    assert "orders" in _topics(tmp_path, f"dispatchers={file}", "case-sensitive=false")


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("none.toml", None, "No such file or directory; dispatchers= names a TOML or JSON file"),
        ("x.toml", "[sink]\n", "no dispatchers: expected those of a changefeed's [sink] section"),
        ("x.json", "{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("x.json", "7", "expected a changefeed's configuration, or a list of rules"),
    ],
)
def test_other_files_are_refused(
    name: str, text: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    command = ["transcode", str(LOG), "--from", "ticdc-open", "--to", "ticdc-open", "-O", f"dispatchers={path}"]
    assert run([*command, "--out", str(tmp_path / "out.jsonl")]) == 2
    assert capsys.readouterr().err == f"error: {path}: {message}\n"


def test_a_rule_with_an_unknown_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rules.json"
    path.write_text('[{"matcher": ["*.*"], "topics": "x"}]')
    command = ["transcode", str(LOG), "--from", "ticdc-open", "--to", "ticdc-open", "-O", f"dispatchers={path}"]
    assert run([*command, "--out", str(tmp_path / "out.jsonl")]) == 2
    assert capsys.readouterr().err == (
        "error: ticdc-open: Object contains unknown field `topics` - at `$.dispatchers[0]`\n"
    )
