"""A history has the same rows with a real schema registry as with a file of schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from changefeed import record_log
from changefeed.stores import stores_of
from tests.protocols.conformance.cases import bytes_of
from tests.protocols.ticdc_avro.messages import AVRO, rows
from tests.services.registry import SchemaRegistry

SHOP = Path(__file__).parents[2] / "data/shop/ticdc-avro"


@pytest.mark.heavy
def test_a_history_goes_through_a_real_registry(registry: SchemaRegistry) -> None:
    log = SHOP / "avro-ext.newarch.jsonl.gz"
    history = pa.Table.from_batches(record_log.read(log)).combine_chunks().to_batches()[0]
    of_files = _options(str(SHOP / "avro-ext.newarch.schemas.json"), "{schema}_{table}")
    of_server = _options(registry.url, "real.{schema}.{table}")
    changes = AVRO.decoder(of_files, stores_of(of_files)).decode(history)
    written = AVRO.encoder(of_server, stores_of(of_server)).encode(changes)
    subjects = registry.call("GET", "/subjects")
    assert {"real_shop_orders-key", "real_shop_orders-value", "real_shop_order_items-value"} <= set(subjects)
    again = AVRO.decoder(of_server, stores_of(of_server)).decode(written)
    assert again.dead == []
    assert [(r.op, r.before, r.after) for r in rows(again)] == [(r.op, r.before, r.after) for r in rows(changes)]
    assert bytes_of(AVRO.encoder(of_server, stores_of(of_server)).encode(again)) == bytes_of(written)


def _options(where: str, topic: str) -> Any:
    return AVRO.read_options({"schema-registry": where, "enable-tidb-extension": True, "topic": topic})
