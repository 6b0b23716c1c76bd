"""The types of the public names: mypy checks this file, and it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import pyarrow as pa

import changefeed as cf
from tests.example_files import copy_examples

SHOP = Path(__file__).parents[2] / "examples" / "shop"


def test_functions_have_the_types_of_their_results() -> None:
    events = cf.read(SHOP / "history.jsonl.gz", protocol="ticdc-open", time_zone="UTC")
    assert_type(events, cf.Events)
    assert_type(events.records, int)
    for event in events:
        if isinstance(event, cf.RowChange):
            assert_type(event.after, dict[str, Any] | None)
            assert_type(event.key, dict[str, Any])
        elif isinstance(event, cf.SchemaChange):
            assert_type(event.columns, tuple[cf.Column, ...] | None)
            assert_type(event.position, cf.Position)
        elif isinstance(event, cf.DeadLetter):
            assert_type(event.value, bytes | None)
        else:
            assert_type(event, cf.Resolved | cf.TransactionMark | cf.Heartbeat)
    decode = assert_type(cf.decoder("ticdc-open"), cf.Decoder)
    decoded = assert_type(decode(pa.table({"key": [b"k"], "value": [b"v"]})), cf.Decoded)
    assert_type(decoded.tables, list[cf.TableBatch])
    assert_type(decoded.dead_letters, list[cf.DeadLetter])
    assert_type(cf.encoder("ticdc-open")(decoded), list[cf.Record])
    assert_type(cf.list_protocols(), list[cf.ProtocolInfo])
    assert_type(cf.__version__, str)


def test_a_pipeline_has_the_types_of_its_results(tmp_path: Path) -> None:
    pipeline = assert_type(cf.Pipeline.load(copy_examples(tmp_path) / "shop" / "pipeline.yaml"), cf.Pipeline)
    explanation = assert_type(pipeline.explain(records=10), cf.Explanation)
    assert_type(explanation.tables, tuple[cf.ExplainedTable, ...])
    status = assert_type(pipeline.status(), cf.Status)
    assert_type(status.cut, cf.PublishedCut | None)
    assert_type(pipeline.dead_letters(), list[cf.KeptDeadLetter])
