"""Values of existing rows that depend on the time zone of the session that executes DDL: `pipeline.session-time-zone`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pipeline.kit.server_log import Row, ServerLog, error_of, run, tables

WAY_OUT = "set pipeline.session-time-zone to the time zone of the session"


def _in_sessions_of(zone: str) -> dict[str, Any]:
    return {"session-time-zone": zone}


def _id(row: Row) -> int:
    return int(row["id"])


@pytest.mark.parametrize("zone, wanted", [("UTC", "2026-07-01 21:09:59"), ("Asia/Kolkata", "2026-07-02 02:39:59")])
def test_a_timestamp_becomes_a_datetime_of_the_session(zone: str, wanted: str) -> None:
    """The statement that people write before the year 2038; without the option it stops the run."""
    log = ServerLog()
    log.ddl("CREATE TABLE t (id BIGINT PRIMARY KEY, c TIMESTAMP NULL)", "shop", "t")
    log.rows("shop", "t", (None, {"id": 1, "c": "2026-07-01T21:09:59Z"}))
    log.ddl("ALTER TABLE t MODIFY c DATETIME NULL", "shop", "t")
    log.rows("shop", "t", (None, {"id": 2, "c": None}))
    assert WAY_OUT in error_of(log.records)
    storage, _ = run(log.records, **_in_sessions_of(zone))
    assert [str(row["c"]) for row in sorted(tables(storage)["shop.t"], key=_id)] == [wanted, "None"]


@pytest.mark.parametrize("zone, wanted", [("UTC", "2026-01-02 03:04:05"), ("Asia/Kolkata", "2026-01-01 21:34:05")])
def test_a_default_of_a_timestamp_is_a_local_time_of_the_session(zone: str, wanted: str) -> None:
    log = ServerLog()
    log.ddl("CREATE TABLE t (id BIGINT PRIMARY KEY)", "shop", "t")
    log.rows("shop", "t", (None, {"id": 1}))
    log.ddl("ALTER TABLE t ADD c TIMESTAMP NULL DEFAULT '2026-01-02 03:04:05'", "shop", "t")
    log.rows("shop", "t", (None, {"id": 2, "c": None}))
    assert WAY_OUT in error_of(log.records)
    storage, _ = run(log.records, **_in_sessions_of(zone))
    assert [str(row["c"])[:19] for row in sorted(tables(storage)["shop.t"], key=_id)] == [wanted, "None"]


@pytest.mark.parametrize("zone, wanted", [("UTC", "2025-11-24"), ("Pacific/Auckland", "2025-11-25")])
def test_a_time_becomes_a_datetime_of_the_day_of_the_statement(zone: str, wanted: str) -> None:
    """The statement began at 2025-11-24T16:00:00Z."""
    log = ServerLog()
    log.ddl("CREATE TABLE t (id BIGINT PRIMARY KEY, c TIME NULL)", "shop", "t")
    log.rows("shop", "t", (None, {"id": 1, "c": 36_630_000_000}), (None, {"id": 2, "c": None}))
    log.ddl("ALTER TABLE t MODIFY c DATETIME NULL", "shop", "t")
    assert WAY_OUT in error_of(log.records)
    storage, _ = run(log.records, **_in_sessions_of(zone))
    assert [str(row["c"]) for row in sorted(tables(storage)["shop.t"], key=_id)] == [f"{wanted} 10:10:30", "None"]
