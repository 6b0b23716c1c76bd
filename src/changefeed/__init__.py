"""Row changes of MySQL and TiDB: decoded, encoded, and applied to lakehouse tables.

>>> import changefeed as cf

**Read.** A record log is a file of Kafka records. `read` returns its events in order, as Python values: `RowChange`,
`SchemaChange`, `Resolved`, `TransactionMark`, `Heartbeat` and `DeadLetter`.

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

`before` and `after` are None if there is no such image. `commit_time` is a `datetime` in UTC; None if the protocol does not
have it. A record that cannot be decoded is a `DeadLetter` among the events, with its bytes, position and error; with
`on_error="raise"` it raises instead. `list_protocols()` returns all protocols. If you do not know which one a log is in,
`detect` decodes a sample of each topic:

>>> (topic,) = cf.detect("examples/shop/history.jsonl.gz")
>>> topic.best.protocol, topic.best.decoded, topic.sample
('ticdc-open', 200, 200)

**Write.** `write` encodes events in a protocol. Events that were read from the same protocol become the same bytes again.
An existing log is replaced only with `overwrite=True`.

>>> events = cf.read("examples/shop/history.jsonl.gz", "ticdc-open")
>>> cf.write(events, "copy.parquet", "ticdc-open", overwrite=True)
Written(path=PosixPath('copy.parquet'), records=902, dead_letters=0)
>>> insert = cf.RowChange("insert", "shop", "orders", after={"id": 7, "note": "new"}, keys=("id",), commit_ts=5)
>>> cf.write([insert], "made.jsonl", "ticdc-open", overwrite=True).records
1

`transcode` translates a log to another protocol. The result lists what the other protocol cannot carry. A loss that would
leave a pipeline with wrong or incomplete tables is an error, unless `allow_loss` names it:

>>> languages = {"source": "ticdc-open", "target": "tencent-dts"}
>>> done = cf.transcode("copy.parquet", "dts.jsonl.gz", **languages, allow_loss=["resolved"], overwrite=True)
>>> done.records, done.lost
(241, ('commit_ts', 'commit_time.ms', 'delete.commit_ts', 'schema.commit_ts', 'resolved'))

**Records from Kafka.** A decoder takes records of any origin: (key, value) pairs, `Record`s, or Arrow tables with the columns
of Spark's Kafka source. Use one decoder per stream of records. An encoder converts events to records.

>>> record = cf.encoder("ticdc-open")([insert])[0]
>>> decode = cf.decoder("ticdc-open")
>>> [str(event) for event in decode([(record.key, record.value)]).events()]
['insert shop.orders {id: 7}  note: "new"  at records:0:0']
>>> decode([(b"?", b"?")]).dead_letters[0].error
'ticdc-open: key ends 7 bytes early at byte 0 (records:0:1). Is "protocol" right for this topic?'

**Columns.** For millions of rows, use Arrow: a decoder returns one or more batches per table. `to_arrow`, `to_pandas` and
`to_polars` return one row per change. `events.batches()` returns the same for a record log.

>>> import pyarrow.parquet as pq
>>> decoded = cf.decoder("ticdc-open")(pq.read_table("copy.parquet"))
>>> table = decoded.tables[0]
>>> table.name, len(table), table.to_arrow().column_names
('shop.audit', 47, ['_op', '_commit_ts', '_commit_time', '_position', 'n', 'msg', 'at'])
>>> len(decoded.events()), decoded.dead_letters
(948, [])

**Pipelines.** A pipeline keeps lakehouse tables equal to the database and applies each change exactly once. It is defined by
a dict, or by a YAML file with the same content: `Pipeline.load("pipeline.yaml")`. All settings: docs/reference/pipeline.md.

>>> pipeline = cf.Pipeline.from_dict({
...     "source": {"type": "files", "path": "examples/shop/history.jsonl.gz", "protocol": "ticdc-open"},
...     "sink": {"type": "delta", "path": "lake"},
...     "pipeline": {"name": "shop"},
... })
>>> explanation = pipeline.explain()
>>> [(table.table, table.keys) for table in explanation.tables][:2]
[('shop.audit', ()), ('shop.customers', ('id',))]

`explain` writes nothing. `pipeline.check()` checks whether the pipeline can run on this machine: `.ok`, and `.checks` with
messages. `pipeline.run()` applies the changes that the source has now, and returns a `Summary`: `.applied` row changes, and
`.tables` with the path and version of each table. `pipeline.status()` reads the progress at any time: `.positions`, `.pending`,
and `.cuts`. A cut has a `commit_ts`, and in `tables` one version per table: read at these versions, the tables are in one state
of the database.
`cf.spark` has a data source for PySpark; see `help(cf.spark)`. Pipelines and `cf.spark` need `pip install 'changefeed[spark]'`.

**Errors.** Every error is a `ChangefeedError`. Its type shows who has to act, and its message what to do:

>>> cf.decoder("ticdc-opn")
Traceback (most recent call last):
    ...
changefeed.errors.ConfigError: unknown protocol "ticdc-opn". Did you mean "ticdc-open"? Known: ...
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
    from changefeed.api.events import EventPipeline, EventProgress, EventSummary
    from changefeed.api.logs import Events, Written, read, write
    from changefeed.api.pipeline import Pipeline
    from changefeed.api.results import Progress, Summary, TableVersion
    from changefeed.api.translation import Transcoded, transcode
    from changefeed.errors import (
        AccessError,
        ChangefeedError,
        ConfigError,
        DamagedError,
        FencedError,
        MissingExtraError,
        NeedsSparkError,
        ProtocolError,
        ResourceError,
        SchemaError,
        SchemaRegistryError,
        SinkError,
        SourceError,
        TruncatedError,
        UnknownRowsError,
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
    from changefeed.pipeline.events.explain import EventExplanation, ExplainedEvents
    from changefeed.pipeline.events.status import EventStatus
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
    "Check", "CheckReport", "EventExplanation", "EventPipeline", "EventProgress", "EventStatus", "EventSummary",
    "ExplainedColumn", "ExplainedEvents", "ExplainedTable", "Explanation", "KeptDeadLetter", "Pipeline", "Progress",
    "PublishedCut", "Status", "Summary", "TableVersion", "spark",
    # values
    "Column", "ColumnType", "DeadLetter", "Decoded", "DetectedTopic", "Heartbeat", "Instant", "Position", "ProtocolFit",
    "ProtocolInfo", "Resolved", "RowChange", "SchemaChange", "Table", "TableBatch", "TableShape", "TransactionMark",
    # errors
    "AccessError", "ChangefeedError", "ConfigError", "DamagedError", "FencedError", "MissingExtraError", "NeedsSparkError",
    "ProtocolError", "ResourceError", "SchemaError", "SchemaRegistryError", "SinkError", "SourceError", "TruncatedError",
    "UnknownRowsError", "UnsupportedError", "__version__",
]  # fmt: skip

# Module -> the names that are taken from it when they are first used: `import changefeed` itself imports nothing.
_HOMES: dict[str, tuple[str, ...]] = {
    "changefeed.api.catalog": ("ProtocolInfo", "list_protocols"),
    "changefeed.api.codecs": ("Decoder", "Encoder", "decoder", "encoder"),
    "changefeed.api.dead_letters": ("KeptDeadLetter",),
    "changefeed.api.detection": ("detect",),
    "changefeed.api.events": ("EventPipeline", "EventProgress", "EventSummary"),
    "changefeed.api.logs": ("Events", "Written", "read", "write"),
    "changefeed.api.pipeline": ("Pipeline",),
    "changefeed.api.results": ("Progress", "Summary", "TableVersion"),
    "changefeed.api.translation": ("Transcoded", "transcode"),
    "changefeed.errors": (
        "AccessError", "ChangefeedError", "ConfigError", "DamagedError", "FencedError", "MissingExtraError", "NeedsSparkError",
        "ProtocolError", "ResourceError", "SchemaError", "SchemaRegistryError", "SinkError", "SourceError", "TruncatedError",
        "UnknownRowsError", "UnsupportedError",
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
    "changefeed.pipeline.events.explain": ("EventExplanation", "ExplainedEvents"),
    "changefeed.pipeline.events.status": ("EventStatus",),
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
