"""The commands on the recorded histories of both producers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from changefeed import __version__
from changefeed.cli import COMMANDS, changefeed, run, short_help
from changefeed.cli.failure import exit_code
from changefeed.cli.output import OutputClosedError, many
from changefeed.errors import ConfigError, FencedError, SourceError, TruncatedError, UnsupportedError
from changefeed.pipeline.config.definition import Definition
from changefeed.record_log import read, write
from tests.cli.command import CLASSIC, invoke, records_in

DATA = Path(__file__).parent.parent / "data" / "shop" / "ticdc-open"
NEWARCH = DATA / "open-3.newarch.jsonl.gz"
OPEN = ("--protocol", "ticdc-open")


@pytest.mark.parametrize("log, profile", [(CLASSIC, "classic"), (NEWARCH, "newarch")])
@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.zst", "out.parquet"])
def test_a_history_through_text_and_back_has_the_same_bytes(log: Path, profile: str, name: str, tmp_path: Path) -> None:
    decoded = invoke("decode", log, *OPEN, "--json")
    assert decoded.return_value == 0
    events = tmp_path / "events.jsonl"
    events.write_bytes(decoded.stdout_bytes)
    encoded = invoke("encode", events, *OPEN, "-o", f"profile={profile}", "--out", tmp_path / name)
    assert (encoded.return_value, encoded.stderr) == (0, "")
    assert records_in(tmp_path / name) == records_in(log)


def test_transcoding_to_the_other_profile_keeps_every_row(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl.gz"
    args = ["--from", "ticdc-open", "--to", "ticdc-open", "-O", "profile=newarch", "--out", out, "--json"]
    done = invoke("transcode", CLASSIC, *args)
    assert done.return_value == 0
    assert json.loads(done.stdout) == {"wrote": str(out), "records": 509, "dead_letters": 0}
    keys = ("op", "table", "before", "after", "commit_ts")
    assert [[row[k] for k in keys] for row in _rows(out)] == [[row[k] for k in keys] for row in _rows(CLASSIC)]
    assert records_in(out) != records_in(CLASSIC)


def _rows(log: Path) -> list[dict[str, Any]]:
    events = map(json.loads, invoke("decode", log, *OPEN, "--json").stdout.splitlines())
    return [event for event in events if event["kind"] == "row"]


def test_a_dead_letter_in_transcode_is_reported_and_left_out(tmp_path: Path) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "out.jsonl"
    log.write_text('{"key_text":"no"}\n')
    args = ("transcode", log, "--from", "ticdc-open", "--to", "ticdc-open", "--out", out)
    done = invoke(*args)
    assert (done.return_value, done.stdout) == (3, f"wrote {out}, 1 dead letter\n")
    assert done.stderr.startswith("dead_letter ")
    lost, letter = map(json.loads, invoke(*args, "--force", "--json").stderr.splitlines())
    assert (lost["loss"]["lost"], letter["position"]) == ([], "log:0:0")
    assert out.read_bytes() == b""


def test_decode_shows_the_changed_columns(tmp_path: Path) -> None:
    lines = invoke("decode", CLASSIC, *OPEN).stdout.splitlines()
    assert lines[1].startswith("schema create_table shop.customers  CREATE TABLE `shop`.`customers` (")
    assert 'update shop.customers {id: 26}  balance: "-854.54" → "1442.89"  at shop:0:6:11' in lines
    assert lines[-1] == "resolved 463268005898553859  at shop:0:508"


def test_several_logs_are_read_one_after_the_other(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", read(CLASSIC, stop=6))
    write(tmp_path / "b.parquet", read(CLASSIC, start=6, stop=9))
    write(tmp_path / "all.jsonl", read(CLASSIC, stop=9))
    parts = invoke("decode", tmp_path / "a.jsonl", tmp_path / "b.parquet", *OPEN, "--json").stdout
    assert parts == invoke("decode", tmp_path / "all.jsonl", *OPEN, "--json").stdout


def test_encode_leaves_dead_letters_out_and_counts_them(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text(
        '{"kind":"resolved","commit_ts":5,"position":"shop:0:7"}\n'
        '{"kind":"dead_letter","reason":"truncated","error":"short","protocol":"ticdc-open","position":"shop:0:8"}\n'
    )
    out = tmp_path / "out.jsonl"
    done = invoke("encode", events, *OPEN, "--out", out)
    assert (done.return_value, done.stdout) == (3, f"wrote {out}, 1 record, 1 dead letter\n")
    assert records_in(out).select(["topic", "partition", "offset"]).to_pylist() == [
        {"topic": "shop", "partition": 0, "offset": 7}
    ]


def test_events_written_by_hand_are_placed_by_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "marks.jsonl").write_text('{"kind":"resolved","commit_ts":5}\n{"kind":"resolved","commit_ts":6}\n')
    invoke("encode", tmp_path / "marks.jsonl", *OPEN, "--out", tmp_path / "out.jsonl")
    assert [tuple(row.values())[:3] for row in records_in(tmp_path / "out.jsonl").to_pylist()] == [
        ("marks", 0, 0),
        ("marks", 0, 1),
    ]


def test_an_error_in_events_leaves_no_log_behind(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"kind":"resolved","commit_ts":5}\n{"kind":"resolved"}\n')
    assert run(["encode", str(events), *OPEN, "--out", str(tmp_path / "out.jsonl")]) == 3
    assert capsysbinary.readouterr() == (
        b"",
        f"error: {events}:2: Object missing required field `commit_ts`\n".encode(),
    )
    assert [path.name for path in tmp_path.iterdir()] == ["events.jsonl"]


@pytest.mark.parametrize(
    "out, message",
    [
        ("out.csv", "a record log's name ends with one of .jsonl, .jsonl.gz, .jsonl.zst, .parquet"),
        ("missing/out.jsonl", "Invalid value for '--out': there is no folder "),
    ],
)
def test_out_must_be_a_place_for_a_log(
    out: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text("")
    assert run(["encode", str(events), *OPEN, "--out", str(tmp_path / out)]) == 2
    assert message in capsys.readouterr().err


def test_an_existing_log_is_replaced_only_if_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events, out = tmp_path / "events.jsonl", tmp_path / "out.jsonl"
    events.write_text('{"kind":"resolved","commit_ts":5}\n')
    assert run(["encode", str(events), *OPEN, "--out", str(out)]) == 0
    out.write_text("{}\n")
    for command in (
        ["encode", str(events), *OPEN],
        ["transcode", str(out), "--from", "ticdc-open", "--to", "ticdc-open"],
    ):
        capsys.readouterr()
        assert run([*command, "--out", str(out)]) == 2
        assert capsys.readouterr().err.startswith(f"error: {out} exists; --force replaces it")
    assert out.read_text() == "{}\n"
    assert run(["encode", str(events), *OPEN, "--out", str(out), "--force"]) == 0
    assert out.read_text() != "{}\n"


@pytest.mark.parametrize(
    "name, meant", [("open-protocol", "ticdc-open"), ("avro", "ticdc-avro"), ("ticdc-opne", "ticdc-open")]
)
def test_a_protocol_by_its_producers_name_is_hinted_at(
    name: str, meant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text("")
    assert run(["decode", str(events), "--protocol", name]) == 2
    assert f'unknown protocol "{name}". Did you mean "{meant}"?' in capsys.readouterr().err


def test_init_writes_a_pipeline_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pipeline.yaml"
    assert run(["init", str(path)]) == 0
    assert capsys.readouterr().out == f"wrote {path}\n"
    text = path.read_text()
    assert Definition.model_validate(yaml.safe_load(text)).source.type == "files"
    path.write_text("mine")
    assert run(["init", str(path)]) == 2
    assert f"error: {path} exists; --force replaces it" in capsys.readouterr().err
    assert path.read_text() == "mine"
    assert run(["init", str(path), "--force"]) == 0
    assert path.read_text() == text


def test_list_shows_protocols_and_sources() -> None:
    listed = json.loads(invoke("list", "--json").stdout)
    assert {one["name"] for one in listed["protocols"]} >= {"ticdc-open"}
    assert {one["name"] for one in listed["sources"]} >= {"files", "kafka"}
    assert {one["name"] for one in listed["event sinks"]} >= {"files", "kafka"}
    assert all(one["title"] for several in listed.values() for one in several)
    shown = invoke("list").stdout
    assert all(one["name"] in shown for several in listed.values() for one in several)
    assert "cuts behind whole transactions" in next(line for line in shown.splitlines() if "debezium-mysql" in line)


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"changefeed, version {__version__}\n"
    assert run([]) == 2
    shown = capsys.readouterr().err
    assert all(f"  {name} " in shown for name in COMMANDS)
    for group in ("bench", "dlq"):
        assert run([group, "--help"]) == 0
        assert "..." not in capsys.readouterr().out.split("Commands:")[1], "a sentence is cut"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_all_commands_is_that_of_each(name: str) -> None:
    context = click.Context(changefeed)
    command = changefeed.get_command(context, name)
    assert command is not None
    assert short_help(name) == command.get_short_help_str(100)


def test_the_help_of_all_commands_imports_none() -> None:
    code = "import sys, changefeed.cli as cli; cli.run(['--help']); print(sorted({*sys.modules} & %r))"
    modules = {module.partition(":")[0] for module in COMMANDS.values()}
    ran = subprocess.run([sys.executable, "-c", code % modules], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "error, code",
    [
        (ConfigError("x"), 2),
        (click.UsageError("x"), 2),
        (TruncatedError("x"), 3),
        (UnsupportedError("x"), 3),
        (SourceError("x"), 3),
        (SourceError("x", transient=True), 1),
        (FencedError("x"), 1),
        (ZeroDivisionError("x"), 1),
        (KeyboardInterrupt(), 130),
        (OutputClosedError(), 141),
    ],
)
def test_the_error_decides_the_exit_code(error: BaseException, code: int) -> None:
    assert exit_code(error) == code


def test_a_defect_asks_for_its_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(COMMANDS, "broken", "changefeed.cli.no_such_module:x")
    assert run(["broken"]) == 1
    assert capsys.readouterr().err == (
        "error: ModuleNotFoundError: No module named 'changefeed.cli.no_such_module'. "
        "This is a defect of changefeed; --traceback shows where\n"
    )


@pytest.mark.parametrize("count, text", [(0, "0 rows"), (1, "1 row"), (1204, "1,204 rows")])
def test_a_count_of_one_is_singular(count: int, text: str) -> None:
    assert many(count, "row") == text
