"""A pipeline on the command line, from the first run to the replay of its dead letters."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from pydantic import BaseModel

from changefeed.cli import COMMANDS, SECTIONS, changefeed
from changefeed.pipeline.config import definition
from changefeed.pipeline.config.load import load
from changefeed.sinks import sink_sections
from changefeed.sources import source_sections
from tests.cli.command import invoke
from tests.pipeline.kit.claim_checks import LARGE, checked_in
from tests.pipeline.kit.history import HistoryBuilder


def _printed(*args: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in invoke(*args, "--json").stdout.splitlines()]


@dataclass(frozen=True)
class Ran:
    """A pipeline after its first run; one row of `orders` is a dead letter until the store is configured."""

    path: Path
    mark: int
    last: int
    events: list[dict[str, Any]]


@pytest.fixture(scope="module")
def ran(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("pipeline")
    h = HistoryBuilder()
    h.schema("app", "orders", "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`note` TEXT,PRIMARY KEY(`id`))")
    h.rows(("orders", None, {"id": 1, "note": "small"}))
    h.rows(("orders", None, {"id": 2, "note": LARGE}))
    mark = h.resolved()
    last = h.rows(("orders", None, {"id": 3, "note": "waits"}))
    checked_in(h, folder / "app.jsonl", folder / "store")
    return Ran(_define(folder), mark, last, _printed("run", _define(folder), "--once"))


def _define(folder: Path, **options: str) -> Path:
    path = folder / "pipeline.yaml"
    source = {"type": "files", "path": "app.jsonl", "protocol": {"name": "ticdc-open", **options}}
    sections = {"source": source, "sink": {"type": "delta", "path": "lake"}}
    path.write_text(yaml.safe_dump({**sections, "pipeline": {"name": "app", "dead-letters": "continue"}}))
    return path


@pytest.mark.heavy
def test_a_run_writes_its_life_as_lines_of_json(ran: Ran) -> None:
    done = invoke("run", ran.path, "--once", "--log-format", "json")
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert (done.exit_code or 0, done.stdout) == (0, "")
    assert {one["level"] for one in lines} == {"info"}
    assert lines[0]["message"].startswith("app: starting Spark, to read ")
    assert re.fullmatch(r"app: 0 rows applied in \d+ steps? and [0-9.]+ s; 1 row pending.*", lines[-1]["message"]), (
        lines
    )
    quiet = invoke("run", ran.path, "--once", "--log-format", "json", "--log-level", "warning")
    assert [line for line in quiet.stderr.splitlines() if line.startswith("{")] == []


@pytest.mark.heavy
def test_a_run_reports_each_step_and_sums_up(ran: Ran) -> None:
    *steps, summary = ran.events
    assert {one["event"] for one in steps} == {"step"}
    assert steps[-1]["commit_ts"] == str(ran.mark)
    assert steps[-1]["counts"]["applied"] == 1
    wanted = {"event": "summary", "pipeline": "app", "epoch": 1, "reached": None, "applied": 1, "stopped_by": None}
    assert {name: summary[name] for name in wanted} == wanted
    assert summary["counts"] == {
        "records": 7, "rows": 2, "applied": 1, "repeated": 0, "pending": 1, "schema_changes": 1, "dead": 1
    }  # fmt: skip
    assert summary["tables"] == {"app.orders": {"version": 0, "path": str(ran.path.parent / "lake" / "app" / "orders")}}


def test_a_point_that_cannot_be_reached_is_exit_code_1_with_the_reason(ran: Ran) -> None:
    done = invoke("run", ran.path, "--once", "--until", ran.last)
    assert done.return_value == 1
    assert done.stderr.splitlines()[0] == f"app: starting Spark, to read {ran.path.parent / 'app.jsonl'}"
    assert done.stdout.splitlines()[0].split() == ["table", "version", "applied", "path"]
    assert done.stdout.splitlines()[1].startswith(f"app.orders  0        {ran.mark} (")
    error = done.stderr.splitlines()[-1]
    assert error.startswith(f"error: --until {ran.last} (")
    assert f"was not reached, the tables are at {ran.mark} (" in error
    assert "the last resolved event in partition 0 of app is " in error
    assert invoke("run", ran.path, "--once", "--until", ran.mark).return_value == 0


def test_a_schema_change_that_is_not_applied_is_reported(
    tmp_path: Path, spark: object, caplog: pytest.LogCaptureFixture
) -> None:
    h = HistoryBuilder()
    h.schema("app", "t", "CREATE TABLE `app`.`t` (`id` BIGINT PRIMARY KEY)")
    h.schema("app", "t", "CREATE INDEX `i` ON `app`.`t` (`id`)")
    h.schema("app", "t", "ALTER TABLE `app`.`t` ADD COLUMN `qty` INT NOT NULL DEFAULT 7")
    h.resolved()
    h.write(tmp_path / "app.jsonl")
    path = _define(tmp_path)
    path.write_text(path.read_text().replace("dead-letters: continue", "schema.change.behavior: ignore"))
    assert invoke("run", path, "--once").return_value == 0
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == [
        "ignored: ALTER TABLE `app`.`t` ADD COLUMN `qty` INT NOT NULL DEFAULT 7"
    ]


def test_status_after_a_run(ran: Ran) -> None:
    [result] = _printed("status", ran.path)
    assert list(result) == [
        "pipeline", "epoch", "positions", "cuts", "pending", "pending_by_table", "dead_letters", "counts", "lag", "held_by",
        "held_since", "run",
    ]  # fmt: skip
    assert result["lag"]["records"] == 0
    assert result["pending_by_table"] == {"app.orders": 1}
    assert [holder["name"] for holder in result["held_by"]] == ["every partition"]
    assert (result["run"]["epoch"], result["run"]["stage"], result["run"]["alive"]) == (
        result["epoch"],
        "stopped",
        False,
    )
    assert result["positions"] == {"app": {"0": 3, "1": 4}}
    assert result["cuts"] == [{"commit_ts": str(ran.mark), "tables": {"app.orders": 0}}]
    shown = invoke("status", ran.path).stdout.splitlines()
    assert shown[0].split() == ["cut", "table", "version"]
    assert shown[1].startswith(f"{ran.mark} (")
    assert shown[-1].endswith("2 rows: 1 applied, 0 repeated, 1 pending; 1 schema change, 1 dead letter")


def test_explain_shows_the_type_map(ran: Ran) -> None:
    [result] = _printed("explain", ran.path)
    assert [c["sink"] for c in result["tables"][0]["columns"]] == ["bigint", "string"]
    shown = invoke("explain", ran.path, "--records", 2).stdout
    assert "app.orders  key id, merge by key, types from DDL" in shown
    assert "  id      bigint    bigint" in shown
    assert "note: no resolved event in the first 2 records" in shown


def test_letters_are_listed_and_shown(ran: Ran) -> None:
    [letter] = _printed("dlq", "list", ran.path)
    assert (letter["reason"], letter["table"], letter["replayed"]) == ("claim-check", "app.orders", None)
    listed = invoke("dlq", "list", ran.path).stdout.splitlines()
    assert listed[0].split() == ["id", "position", "reason", "table", "error"]
    assert listed[1].split()[:7] == [
        letter["id"],
        letter["position"],
        "claim-check",
        "app.orders",
        "ticdc-open:",
        "row",
        "is",
    ]
    by_id, by_position = (invoke("dlq", "show", ran.path, letter[name]).stdout for name in ("id", "position"))
    assert by_id == by_position
    assert "00000000  00 00 00 00 00 00 00 01  " in by_id
    [everything] = _printed("dlq", "show", ran.path, letter["position"])
    assert everything["key"].startswith("AAAAAAAAAAE")
    with pytest.raises(
        Exception, match=r"^no dead letter has the id or position app:0:99; `changefeed dlq list --all`"
    ):
        invoke("dlq", "show", ran.path, "app:0:99")


def test_letters_are_replayed(ran: Ran) -> None:
    done = invoke("dlq", "replay", ran.path)
    assert done.return_value == 3
    assert "still dead: ticdc-open: row is in the claim-check file" in done.stdout
    _define(ran.path.parent, **{"claim-check-storage-uri": str(ran.path.parent / "store")})
    [would] = _printed("dlq", "replay", ran.path, "--dry-run")
    assert (would["dry_run"], len(would["replayed"]), would["late"]) == (True, 1, {"app.orders": 1})
    done = invoke("dlq", "replay", ran.path)
    assert done.return_value == 0
    assert done.stdout.splitlines()[0] == "1 dead letter replayed: 0 rows to apply"
    assert done.stdout.splitlines()[1].startswith("not applied: 1 row of app.orders at or below the barrier")
    assert invoke("dlq", "replay", ran.path).stdout == "no dead letters\n"
    assert invoke("dlq", "list", ran.path).stdout == "no dead letters\n"
    [letter] = _printed("dlq", "list", ran.path, "--all")
    assert letter["replayed"] is not None
    assert _printed("status", ran.path)[0]["counts"]["dead"] == 0


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """A file with a line for each start of a program that Hadoop may start for a local file."""
    programs, log = tmp_path / "programs", tmp_path / "started"
    programs.mkdir()
    log.touch()
    for name in ("chmod", "readlink", "stat", "ls"):
        program = programs / name
        program.write_text(f'#!/bin/sh\necho {name} "$@" >> {log}\nexec {shutil.which(name)} "$@"\n')
        program.chmod(0o755)
    return log


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.timeout(600)  # a JVM of its own, and two processes that wait for each other
@pytest.mark.xdist_group("processes")
def test_a_run_that_follows_ends_orderly_on_a_signal(tmp_path: Path, started: Path) -> None:
    h = HistoryBuilder()
    h.rows(("orders", None, {"id": 1, "note": "first"}))
    mark = h.resolved()
    h.write(tmp_path / "app.jsonl")
    command = [sys.executable, "-m", "changefeed.cli", "run", str(_define(tmp_path)), "--json"]
    environment = os.environ | {"PATH": f"{tmp_path / 'programs'}:{os.environ['PATH']}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        step = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        lines = process.stdout.read().splitlines()
        assert process.wait(60) == 143
    assert (step["event"], step["commit_ts"]) == ("step", str(mark))
    summary = json.loads(lines[-1])
    assert (summary["event"], summary["stopped_by"], summary["commit_ts"]) == ("summary", "SIGTERM", str(mark))
    assert started.read_text() == "", "each start costs 5 ms of CPU"


def test_status_line_is_one_line_for_a_terminal_and_a_line_each_for_a_file() -> None:
    code = "from changefeed.cli.output import Output\nwith Output().status('a') as say: say('b [c]'); say('d')"
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (piped.stdout, piped.stderr) == (b"", b"b [c]\nd\n")
    assert "\n" not in _shown_in_a_terminal(code).replace("\r\n", "", 1)


def _shown_in_a_terminal(code: str) -> str:
    """Runs a program in Python, and returns what it writes to stderr, which is a terminal of 80 columns."""
    main, terminal = os.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "20"}
    shown = b""
    with subprocess.Popen([sys.executable, "-c", code], stderr=terminal, env=env) as process:
        os.close(terminal)
        with suppress(OSError):  # the other end is closed
            while some := os.read(main, 1 << 16):
                shown += some
    os.close(main)
    assert process.returncode == 0
    return shown.decode()


def test_the_line_of_a_run_shows_its_whole_text_beside_a_bar_where_the_total_is_known() -> None:
    text = " ".join(f"word{n}" for n in range(30))
    code = (
        "from changefeed.cli.output import Output\noutput = Output()\nwith output.run_line() as line:\n"
        f" line.bar(49, 100); line.say({text!r}); import time; time.sleep(0.5); output.note('a note'); time.sleep(0.5)\n"
        " line.bar(100, None); line.say('waits'); time.sleep(0.5)\n"
    )
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", _shown_in_a_terminal(code))
    assert re.search(r"[\r\n]a note\r\n", shown), "it is above the line, and not in it"
    known, unknown = (shown[: shown.index("waits")], shown[shown.index("waits") :])
    assert (" 49%" in known, "━" in known, text.split()[-1] in known) == (True, True, True)
    assert ("%" in unknown, "━" in unknown) == (False, False)
    assert any(frame in unknown for frame in "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"), "the spinner shows that the run lives"


def test_every_command_has_its_section_and_an_example() -> None:
    assert {name for names in SECTIONS.values() for name in names} <= COMMANDS.keys()
    shown = CliRunner().invoke(changefeed, ["--help"]).stdout
    assert all(f"\n{title}:\n" in shown for title in [*SECTIONS, "More"])
    for words, command in _leaves(click.Context(changefeed), changefeed, ()):
        text = CliRunner().invoke(changefeed, [*words, "--help"]).stdout
        assert f"  changefeed {' '.join(words)} " in text.split("Example", 1)[1], words
        assert command.help


def _leaves(
    ctx: click.Context, group: click.Group, above: tuple[str, ...]
) -> list[tuple[tuple[str, ...], click.Command]]:
    leaves: list[tuple[tuple[str, ...], click.Command]] = []
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, click.Group):
            leaves += _leaves(ctx, command, (*above, name))
        elif command is not None:
            leaves.append(((*above, name), command))
    return leaves


OPTION = re.compile(r"^( *)# ([a-z.-]+: .+)$", re.MULTILINE)
PROSE = ("transaction: ", "key: ")


def test_the_template_of_init_names_every_part_of_a_definition(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    invoke("init", path)
    text = path.read_text()
    assert load(path).pipeline == definition.Behaviour(name="shop")
    models: tuple[type[BaseModel], ...] = (*source_sections().values(), *sink_sections().values(), definition.Behaviour)
    for model in models:
        for name, field in model.model_fields.items():
            assert re.search(rf"[ #]{re.escape(field.alias or name)}: ", text), (model.__name__, name)


def _alternatives(text: str) -> Iterator[str]:
    """The template with each block of comments that has a type of its own in place of what it replaces."""
    lines = text.splitlines()
    for first in (place for place, line in enumerate(lines) if line.startswith("  # type: ")):
        block = [*takewhile(lambda line: line.startswith("  # ") and OPTION.fullmatch(line), lines[first:])]
        replaced = lines[first - 1].partition("these instead of ")[2].rstrip(".").replace(" and ", ", ").split(", ")
        start = max(place for place in range(first) if not lines[place].startswith((" ", "#")) and lines[place])
        kept = [
            line for line in lines[start + 1 : first] if not line.startswith(tuple(f"  {name}: " for name in replaced))
        ]
        own = [OPTION.sub(r"\1\2", line) for line in block]
        yield "\n".join([*lines[: start + 1], *own, *kept, *lines[first + len(block) :]]) + "\n"


def test_every_option_in_a_comment_of_the_template_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    invoke("init", path)
    text = path.read_text()
    blocks = [*_alternatives(text)]
    assert len(blocks) == 3
    options = [match for match in OPTION.finditer(text) if not match[2].startswith(PROSE)]
    inside = {match[0] for match in options for block in blocks if match[0] not in block}
    assert len(options) >= 30
    assert 12 <= len(inside) < len(options)
    alone = [text[: m.start()] + m[1] + m[2] + text[m.end() :] for m in options if m[0] not in inside]
    for definition_text in (*blocks, *alone):
        path.write_text(definition_text)
        load(path)
