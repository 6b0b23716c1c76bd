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


@pytest.mark.parametrize(
    "options, why",
    [
        ({"signal-table": "signals"}, "expected `database.table`"),
        (
            {"signal-table": "ops.signals", "snapshot.mode": "initial_only"},
            "`signal-table` needs another `snapshot.mode`",
        ),
        (
            {"snapshot.mode": "recovery"},
            "`recovery` is not supported: set it to initial, initial_only, no_data, when_needed, always",
        ),
        ({"snapshot.mode": "never"}, "`never` is not supported"),
        ({"snapshot.mode": "first"}, "expected initial, initial_only, no_data, when_needed, always"),
        ({"starting-position": "binlog.000003:154"}, "`starting-position` needs `snapshot.mode: no_data`"),
        ({"snapshot.mode": "no_data", "starting-position": "000003"}, "such as binlog.000003:154"),
        ({"password": "a", "password-file": "b"}, "either `password` or `password-file`"),
        ({"tables": ["shop"]}, "table filter"),
        ({"port": 0}, "greater than or equal to 1"),
        ({"ssl-mode": "on"}, "verify_identity"),
        ({"hosts": "db"}, "Extra inputs"),
    ],
)
def test_wrong_options(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why.replace("[", r"\[")):
        MySqlSource.model_validate(OWN | options)


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
