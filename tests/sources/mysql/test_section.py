"""`source: {type: mysql}`: what it takes and refuses, and that no message shows the password."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import changefeed as cf
from changefeed.redaction import redact
from changefeed.sources.mysql import open_changes
from changefeed.sources.mysql.section import MySqlSource

OWN = {"type": "mysql", "host": "db", "user": "u"}
BY_OPTIONS = "snapshot.mode.configuration.based."


@pytest.mark.parametrize(
    "options, why",
    [
        ({"signal-table": "signals"}, "expected `database.table`"),
        (
            {"signal-table": "ops.signals", "snapshot.mode": "initial_only"},
            "`signal-table` needs another `snapshot.mode`",
        ),
        ({"snapshot.mode": "never"}, "`never` is not supported: set it to `no_data`"),
        ({"snapshot.mode": "first"}, "expected initial, initial_only, no_data, when_needed, always, recovery"),
        ({"snapshot.mode": "configuration_based"}, "there is nothing to read otherwise"),
        ({BY_OPTIONS + "start.stream": True}, "means nothing with `initial`"),
        (
            {"snapshot.mode": "configuration_based", BY_OPTIONS + "snapshot.data": True, "signal-table": "ops.signals"},
            "with `configuration_based` the log is not followed",
        ),
        ({"starting-position": "binlog.000003:154"}, "`starting-position` needs `snapshot.mode: no_data`"),
        ({"snapshot.mode": "no_data", "starting-position": "000003"}, "such as binlog.000003:154"),
        ({"password": "a", "password-file": "b"}, "either `password` or `password-file`"),
        ({"tables": ["shop"]}, "pattern"),
        ({"port": 0}, "greater than or equal to 1"),
        ({"ssl-mode": "on"}, "verify_identity"),
        ({"hosts": "db"}, "Extra inputs"),
    ],
)
def test_wrong_options(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why.replace("[", r"\[")):
        MySqlSource.model_validate(OWN | options)


@pytest.mark.parametrize(
    "chosen, mode",
    [
        ({"snapshot.data": True, "start.stream": True}, "initial"),
        ({"snapshot.data": True}, "initial_only"),
        ({"start.stream": True}, "no_data"),
        ({"snapshot.data": True, "start.stream": True, "snapshot.on.data.error": True}, "when_needed"),
    ],
)
def test_a_mode_by_options_is_one_with_a_name(chosen: dict[str, bool], mode: str) -> None:
    options = {BY_OPTIONS + name: value for name, value in chosen.items()}
    by_options = MySqlSource.model_validate(OWN | options | {"snapshot.mode": "configuration_based"})
    named = MySqlSource.model_validate(OWN | {"snapshot.mode": mode})
    for fact in ("copies_first", "follows_log", "copies_lost_log", "has_all_rows", "recovers"):
        assert getattr(by_options, fact) == getattr(named, fact), fact


def test_defaults() -> None:
    read = MySqlSource.model_validate(OWN)
    assert (read.port, read.snapshot_mode, read.tables, read.ssl_mode) == (3306, "initial", ["*.*"], "preferred")
    assert read.reads == "*.* at db:3306"


def test_the_password_is_in_no_text(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        "source: {type: mysql, host: db, user: u, password: hunter22secret}\nsink: {type: delta, path: lake}\n"
    )
    definition = cf.Pipeline.load(tmp_path / "pipeline.yaml").definition
    assert isinstance(definition.source, MySqlSource)
    assert "hunter22secret" not in repr(open_changes(definition.source))
    assert redact("denied for hunter22secret") == "denied for ***"


def test_options_of_the_other_kind_of_pipeline_are_refused(tmp_path: Path) -> None:
    tables = {"sink": {"type": "delta", "path": "lake"}}
    events = {
        "sink": {
            "type": "kafka", "servers": "kafka:9092", "topic": "{topic}",
            "protocol": {"name": "debezium-mysql", "topic.prefix": "shop"},
        },
        "pipeline": {"folder": "state"},
    }  # fmt: skip
    signals = OWN | {"signal-table": "ops.signals"}
    continued = OWN | {"from-debezium": "offsets.dat", "snapshot.mode": "no_data"}
    cf.Pipeline.from_dict({"source": signals, **tables}, base=tmp_path)
    cf.EventPipeline.from_dict({"source": continued, **events}, base=tmp_path)
    cf.EventPipeline.from_dict({"source": signals, **events}, base=tmp_path)
    with pytest.raises(cf.ConfigError, match=r"source\.notification-topic: .*Remove the option"):
        cf.Pipeline.from_dict({"source": OWN | {"notification-topic": "notes"}, **tables}, base=tmp_path)
    with pytest.raises(cf.ConfigError, match=r"source\.from-debezium: .*Remove the option"):
        cf.Pipeline.from_dict({"source": continued, **tables}, base=tmp_path)
