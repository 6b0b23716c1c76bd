"""Record logs in Python: reading, writing, detecting and transcoding."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any

import pytest

import changefeed as cf
from changefeed import record_log
from changefeed.model.batch import record_batch

SHOP = Path(__file__).parents[2] / "examples" / "shop" / "history.jsonl.gz"


def digest(log: Path) -> str:
    """A digest of the records' contents, the same for every form of log."""
    records = (cf.Record(r["key"], r["value"], r["topic"], r["partition"], r["offset"]) for r in rows(log))
    return hashlib.sha256(repr(list(records)).encode()).hexdigest()


def rows(log: Path) -> list[dict[str, Any]]:
    return [row for batch in record_log.read(log) for row in batch.to_pylist()]


def damaged(tmp_path: Path) -> Path:
    """The first records of the shop's log, one of which is not of the protocol."""
    log = tmp_path / "damaged.jsonl"
    good = rows(SHOP)[:3]
    bad = {"topic": "shop", "partition": 0, "offset": 99, "key": b"{", "value": b"?"}
    record_log.write(log, [record_batch([*good[:2], bad, good[2]])])
    return log


def test_events_come_in_order_and_are_counted() -> None:
    events = cf.read(SHOP, "ticdc-open")
    first = next(events)
    assert isinstance(first, cf.SchemaChange)
    assert first.type == "create_database"
    rest = list(events)
    assert {type(event) for event in rest} == {cf.RowChange, cf.SchemaChange, cf.Resolved}
    assert (len(rest) + 1, events.records, events.dead_letters) == (948, 902, 0)


def test_a_log_is_read_a_batch_at_a_time() -> None:
    events = cf.read(SHOP, "ticdc-open")
    next(events)
    assert events.records == 902  # one batch is up to 1000 records
    several = cf.read([SHOP, SHOP, SHOP], "ticdc-open")
    next(several)
    assert several.records == 902


def test_a_bad_record_is_a_dead_letter_in_its_place(tmp_path: Path) -> None:
    events = cf.read(damaged(tmp_path), "ticdc-open")
    read = list(events)
    assert [type(event) for event in read].index(cf.DeadLetter) == 2
    letter = read[2]
    assert isinstance(letter, cf.DeadLetter)
    assert (letter.key, letter.value, str(letter.position)) == (b"{", b"?", "shop:0:99")
    assert events.dead_letters == 1


def test_a_bad_record_raises_on_request(tmp_path: Path) -> None:
    with pytest.raises(cf.ProtocolError, match=r"\(shop:0:99\)") as raised:
        list(cf.read(damaged(tmp_path), "ticdc-open", on_error="raise"))
    assert raised.value.reason == "truncated"


_TWICE: dict[str, Any] = {"time_zone": "UTC", "time-zone": "UTC"}


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: cf.read(SHOP, "ticdc-opne"), 'unknown protocol "ticdc-opne". Did you mean "ticdc-open"?'),
        (lambda: cf.read(SHOP, "ticdc-open", time_zoen="UTC"), "unknown option of ticdc-open"),
        (lambda: cf.read(SHOP, "ticdc-open", **_TWICE), "option time-zone is set twice"),
        (lambda: cf.read("no.jsonl", "ticdc-open"), "no.jsonl does not exist"),
        (lambda: cf.read([], "ticdc-open"), "no path: name at least one record log"),
        (lambda: cf.read(__file__, "ticdc-open"), "record log: its name must end with"),
        (lambda: cf.read(SHOP, "ticdc-open", on_error="ignore"), 'on_error must be "yield" or "raise", not \'ignore\''),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_a_wrong_argument_is_an_error_at_once(call: Any, message: str) -> None:
    with pytest.raises(cf.ConfigError) as raised:
        call()
    assert message in str(raised.value)


def test_an_option_is_spelled_as_python_does_or_as_the_producer_does() -> None:
    spelled: list[dict[str, Any]] = [{"time_zone": "Asia/Shanghai"}, {"time-zone": "Asia/Shanghai"}]
    for options in spelled:
        change = next(e for e in cf.read(SHOP, "ticdc-open", **options) if isinstance(e, cf.RowChange))
        assert change.table == "audit"


@pytest.mark.parametrize("columns", [False, True], ids=["events", "batches"])
def test_changes_that_were_read_are_written_byte_for_byte(tmp_path: Path, columns: bool) -> None:
    events = cf.read(SHOP, "ticdc-open")
    copy = tmp_path / "copy.parquet"
    written = cf.write(events if columns else iter(list(events)), copy, "ticdc-open")
    assert (written.path, written.records, written.dead_letters) == (copy, 902, 0)
    assert digest(copy) == digest(SHOP)


def test_changes_made_by_hand_are_written_and_read_again(tmp_path: Path) -> None:
    columns = (
        cf.Column("id", cf.ColumnType.parse("bigint unsigned"), nullable=False, key=True),
        cf.Column("name", cf.ColumnType.parse("varchar(20)"), nullable=True, key=False),
    )
    made = [
        cf.RowChange("insert", "shop", "t", after={"id": n, "name": None}, keys=("id",), columns=columns, commit_ts=7)
        for n in range(3)
    ]
    log = tmp_path / "made.jsonl"
    cf.write([*made, cf.Resolved(8, cf.Position("events", 0, 3))], log, "ticdc-open")
    again = list(cf.read(log, "ticdc-open"))
    assert [event.key for event in again if isinstance(event, cf.RowChange)] == [{"id": 0}, {"id": 1}, {"id": 2}]
    assert isinstance(again[-1], cf.Resolved)


def test_a_log_is_replaced_only_if_asked(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("")
    with pytest.raises(cf.ConfigError, match="exists; overwrite=True replaces it"):
        cf.write([], log, "ticdc-open")
    assert cf.write([], log, "ticdc-open", overwrite=True).records == 0


def test_dead_letters_are_left_out_and_counted(tmp_path: Path) -> None:
    written = cf.write(cf.read(damaged(tmp_path), "ticdc-open"), tmp_path / "good.jsonl", "ticdc-open")
    assert (written.records, written.dead_letters) == (3, 1)


def test_detect_ranks_the_protocols_with_the_evidence() -> None:
    (topic,) = cf.detect(SHOP)
    assert topic.best is topic.fits[0]
    assert (topic.name, topic.fits[0].protocol, topic.fits[0].decoded, topic.sample) == ("shop", "ticdc-open", 200, 200)
    assert topic.to_dict()["protocol"] == "ticdc-open"
    with pytest.raises(cf.ConfigError, match="unknown option"):
        cf.detect(SHOP, options={"time-zoen": "UTC"})


def test_transcode_refuses_a_loss_and_names_the_argument(tmp_path: Path) -> None:
    out = tmp_path / "dts.jsonl"
    with pytest.raises(cf.ConfigError) as raised:
        cf.transcode(SHOP, out, source="ticdc-open", target="tencent-dts")
    assert str(raised.value).endswith("Allow it with allow_loss=['resolved']")
    done = cf.transcode(SHOP, out, source="ticdc-open", target="tencent-dts", allow_loss=["resolved"])
    assert done.records == record_log.count(out)
    assert "resolved" in done.lost
    assert list(done.needed) == ["resolved"]


def test_transcode_hands_over_dead_letters_or_logs_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log, letters = damaged(tmp_path), list[cf.DeadLetter]()
    to: dict[str, Any] = {"source": "ticdc-open", "target": "ticdc-open"}
    done = cf.transcode(log, tmp_path / "a.jsonl", **to, on_dead_letter=letters.append)
    assert (done.records, done.dead_letters, len(letters)) == (3, 1, 1)
    with caplog.at_level(logging.WARNING, "changefeed"):
        cf.transcode(log, tmp_path / "b.jsonl", **to)
    assert [record.getMessage().startswith("left out, as it could not be decoded") for record in caplog.records] == [
        True
    ]


def test_protocols_are_described() -> None:
    known = {one.name: one for one in cf.list_protocols()}
    assert known["ticdc-open"].cuts == "marks"
    assert "time-zone" in known["ticdc-open"].options
    assert known["ticdc-open"].to_dict()["ops"] == ["delete", "insert", "update", "upsert"]
