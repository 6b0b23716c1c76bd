"""Row changes of MySQL and TiDB: decoded, encoded, and applied to lakehouse tables.

>>> import changefeed as cf

**Read.** A record log is a file of Kafka records. `read` gives its events in order, as Python values:

>>> events = cf.read("examples/shop/history.jsonl.gz", protocol="ticdc-open")
>>> updates = [event for event in events if isinstance(event, cf.RowChange) and event.op == "update"]
>>> change = next(change for change in updates if change.table == "customers")
>>> print(change)
update shop.customers {id: 17}  balance: "63.31" → "45.01"  at shop:2:8
>>> change.key, change.before["balance"], change.after["balance"]
({'id': 17}, Decimal('63.31'), Decimal('45.01'))
>>> change.commit_ts, change.commit_time.isoformat(), str(change.position)
(463267598563341383, '2026-01-01T00:00:41.492000+00:00', 'shop:2:8')
>>> events.records, events.dead_letters
(902, 0)

`commit_time` is a `datetime` in UTC, of rows and of other events, or None; tables have it as `timestamp[us, UTC]`.
A record that cannot be decoded is a `DeadLetter` among the events, with its bytes and its position;
`on_error="raise"` raises instead. Which protocol a log is in, `detect` finds out by decoding a sample:

>>> (topic,) = cf.detect("examples/shop/history.jsonl.gz")
>>> topic.best.protocol, topic.best.decoded, topic.sample
('ticdc-open', 200, 200)

**Write.** Events are written in the protocol that they came in, byte for byte, or in another one. The result
lists what the other one cannot carry; a loss that a pipeline would feel is refused unless it is allowed:

>>> cf.write(cf.read("examples/shop/history.jsonl.gz", "ticdc-open"), "copy.parquet", "ticdc-open")
Written(path=PosixPath('copy.parquet'), records=902, dead_letters=0)
>>> done = cf.transcode("copy.parquet", "dts.jsonl.gz", source="ticdc-open", target="tencent-dts", allow_loss=["resolved"])
>>> done.records, done.lost
(241, ('commit_ts', 'commit_time.ms', 'delete.commit_ts', 'schema.commit_ts', 'resolved'))

**Columns.** A decoder takes records from anywhere, here from a Parquet file, and gives Arrow tables. `to_arrow`, `to_pandas`
and `to_polars` are one row a change; `events` is all of it one by one.

>>> import pyarrow.parquet as pq
>>> decoded = cf.decoder("ticdc-open")(pq.read_table("copy.parquet"))
>>> table = decoded.tables[0]
>>> table.name, len(table), table.to_arrow().column_names
('shop.audit', 47, ['_op', '_commit_ts', '_commit_time', '_position', 'n', 'msg', 'at'])
>>> len(decoded.events()), decoded.dead_letters
(948, [])

**Pipelines.** A pipeline keeps lakehouse tables equal to the database, exactly once; see `docs/guides/quickstart.md`.

>>> pipeline = cf.Pipeline.load("examples/shop/pipeline.yaml")
>>> explanation = pipeline.explain()
>>> [(table.table, table.keys) for table in explanation.tables][:2]
[('shop.audit', ()), ('shop.customers', ('id',))]

`pipeline.check()` checks that it can run here, `pipeline.run()` applies what the source has, and `pipeline.status()` has the
position and the newest consistent versions of the tables. `cf.spark` is a data source for PySpark. Every error is a
`ChangefeedError`; its type is who has to act.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from changefeed import spark
    from changefeed.api.catalog import ProtocolInfo, list_protocols
    from changefeed.api.codecs import Decoder, Encoder, decoder, encoder
    from changefeed.api.dead_letters import KeptDeadLetter
    from changefeed.api.detection import detect
    from changefeed.api.logs import Events, Written, read, write
    from changefeed.api.pipeline import Pipeline
    from changefeed.api.results import Progress, Summary, TableVersion
    from changefeed.api.translation import Transcoded, transcode
    from changefeed.errors import (
        ChangefeedError,
        ConfigError,
        FencedError,
        MissingExtraError,
        ProtocolError,
        ResourceError,
        SchemaError,
        SchemaRegistryError,
        SinkError,
        SourceError,
        TruncatedError,
        UnsupportedError,
    )
    from changefeed.model.batch import Decoded, TableBatch
    from changefeed.model.change import RowChange
    from changefeed.model.definition import Table
    from changefeed.model.event import DeadLetter, Heartbeat, Instant, Resolved, SchemaChange, TransactionMark
    from changefeed.model.position import Position
    from changefeed.model.record import Record
    from changefeed.model.table import Column, TableShape
    from changefeed.model.types import ColumnType
    from changefeed.pipeline.operations.check import Check, CheckReport
    from changefeed.pipeline.operations.detect import DetectedTopic, ProtocolFit
    from changefeed.pipeline.operations.explain import ExplainedColumn, ExplainedTable, Explanation
    from changefeed.pipeline.operations.status import PublishedCut, Status

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022  # by subject
    # records and events
    "Decoder", "Encoder", "Events", "Record", "Transcoded", "Written",
    "decoder", "detect", "encoder", "list_protocols", "read", "transcode", "write",
    # pipelines
    "Check", "CheckReport", "ExplainedColumn", "ExplainedTable", "Explanation", "KeptDeadLetter", "Pipeline", "Progress",
    "PublishedCut", "Status", "Summary", "TableVersion", "spark",
    # values
    "Column", "ColumnType", "DeadLetter", "Decoded", "DetectedTopic", "Heartbeat", "Instant", "Position", "ProtocolFit",
    "ProtocolInfo", "Resolved", "RowChange", "SchemaChange", "Table", "TableBatch", "TableShape", "TransactionMark",
    # errors
    "ChangefeedError", "ConfigError", "FencedError", "MissingExtraError", "ProtocolError", "ResourceError", "SchemaError",
    "SchemaRegistryError", "SinkError", "SourceError", "TruncatedError", "UnsupportedError",
    "__version__",
]  # fmt: skip

# Module -> the names that are taken from it when they are first used: `import changefeed` itself imports nothing.
_HOMES: dict[str, tuple[str, ...]] = {
    "changefeed.api.catalog": ("ProtocolInfo", "list_protocols"),
    "changefeed.api.codecs": ("Decoder", "Encoder", "decoder", "encoder"),
    "changefeed.api.dead_letters": ("KeptDeadLetter",),
    "changefeed.api.detection": ("detect",),
    "changefeed.api.logs": ("Events", "Written", "read", "write"),
    "changefeed.api.pipeline": ("Pipeline",),
    "changefeed.api.results": ("Progress", "Summary", "TableVersion"),
    "changefeed.api.translation": ("Transcoded", "transcode"),
    "changefeed.errors": (
        "ChangefeedError", "ConfigError", "FencedError", "MissingExtraError", "ProtocolError", "ResourceError",
        "SchemaError", "SchemaRegistryError", "SinkError", "SourceError", "TruncatedError", "UnsupportedError",
    ),
    "changefeed.model.batch": ("Decoded", "TableBatch"),
    "changefeed.model.change": ("RowChange",),
    "changefeed.model.definition": ("Table",),
    "changefeed.model.event": (
        "DeadLetter", "Heartbeat", "Instant", "Resolved", "SchemaChange", "TransactionMark"
    ),
    "changefeed.model.position": ("Position",),
    "changefeed.model.record": ("Record",),
    "changefeed.model.table": ("Column", "TableShape"),
    "changefeed.model.types": ("ColumnType",),
    "changefeed.pipeline.operations.check": ("Check", "CheckReport"),
    "changefeed.pipeline.operations.detect": ("DetectedTopic", "ProtocolFit"),
    "changefeed.pipeline.operations.explain": ("ExplainedColumn", "ExplainedTable", "Explanation"),
    "changefeed.pipeline.operations.status": ("PublishedCut", "Status"),
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_SUBMODULES = ("spark",)


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used (PEP 562)."""
    if name in _SUBMODULES:
        return import_module(f"changefeed.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'changefeed' has no attribute {name!r}")
    try:
        value = globals()[name] = getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        from changefeed.errors import MissingExtraError

        if error.name is None or error.name.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise MissingExtraError(f"changefeed.{name}", "spark") from error
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
