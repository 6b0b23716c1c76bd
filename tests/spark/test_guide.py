"""The PySpark guide prints what it shows: its blocks are run in their order, with a broker, and the output is compared."""

from __future__ import annotations

import contextlib
import io
import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.docs.shown import ROOT, Shown
from tests.spark.from_kafka import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.services.kafka import KafkaBroker

_PAGE = "docs/guides/pyspark.md"
_BLOCKS = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
_HISTORY = ROOT / "examples" / "shop" / "history.jsonl.gz"


@pytest.mark.heavy
def test_every_block_prints_what_is_shown(spark: SparkSession, kafka: KafkaBroker, tmp_path: Path) -> None:
    from changefeed import record_log

    topic = f"guide-{uuid.uuid4().hex}"
    kafka.create_topic(topic, partitions=4)
    kafka.create_topic(f"{topic}-orders-in-dts", partitions=4)
    rows = [row for batch in record_log.read(_HISTORY) for row in batch.to_pylist()]
    records: list[Record] = [(r["key"], r["value"], [], r["partition"]) for r in rows]
    kafka.produce(topic, records)
    blocks = _BLOCKS.findall((ROOT / _PAGE).read_text(encoding="utf-8"))
    names: dict[str, Any] = {"spark": spark}
    assert len(blocks) > 8
    for code, output in blocks:
        adapted = code.replace("broker:9092", kafka.bootstrap).replace('"out/', f'"{tmp_path}/out/')
        adapted = re.sub('("subscribe"[,:]) "shop"', rf'\1 "{topic}"', adapted)
        adapted = adapted.replace('"orders-in-dts"', f'"{topic}-orders-in-dts"')
        adapted = adapted.replace('"examples/', f'"{ROOT}/examples/')
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(adapted, _PAGE, "exec"), names)
        assert Shown(_PAGE, code, output).fits(printed.getvalue()), (
            f"{code}\nshown:\n{output}\nprinted:\n{printed.getvalue()}"
        )
