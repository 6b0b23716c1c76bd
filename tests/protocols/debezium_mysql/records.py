"""Records of the connector for tests, made by hand or recorded."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from changefeed import record_log
from changefeed.columnar.events import Row, in_order
from changefeed.model.batch import BatchBuilder, Decoded, record_batch
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape, canonical
from changefeed.model.types import ColumnType
from changefeed.protocols import protocol
from changefeed.protocols.base import Stores

DEBEZIUM = protocol("debezium-mysql")
DATA = Path(__file__).parents[2] / "data"
NAMES = ["topic", "partition", "offset", "key", "value", "headers"]
TIME_US = 1_795_248_239_121_318

D, C = "io.debezium.", "org.apache.kafka.connect.data."
HINT = '. Is "protocol" right for this topic?'
UNWRAP = '; if it is a row without envelope, set the option "unwrap"'
DIGITS = '"scale":"%d","connect.decimal.precision":"%d"'
PLACE = Place("e", 0, 7)
SOURCE = (
    '{"version":"3.6.3.Final","connector":"mysql","name":"srv1","ts_ms":1795248239121,"snapshot":"false","db":"inv",'
    '"sequence":null,"ts_us":1795248239121318,"ts_ns":1795248239121318000,"table":"t","server_id":223344,"gtid":null,'
    '"file":"mysql-bin.000001","pos":13400,"row":0,"thread":20,"query":null}'
)
CLOCK = '"ts_ms":1795248239178,"ts_us":1795248239178174,"ts_ns":1795248239178174154'
SPECIFIED_KEY = (
    '{"type":"record","name":"Key","namespace":"p.d.t","fields":[{"name":"id","type":"int"}],'
    '"connect.name":"p.d.t.Key"}'
)
SPECIFIED_ENVELOPE = (
    '{"type":"record","name":"Envelope","namespace":"p.d.t","fields":[{"name":"before","type":["null",{"type":"re'
    'cord","name":"Value","fields":[{"name":"id","type":"int"},{"name":"name","type":"string"}],"connect.name":"p'
    '.d.t.Value"}],"default":null},{"name":"after","type":["null","Value"],"default":null},{"name":"source","type'
    '":{"type":"record","name":"Source","namespace":"io.debezium.connector.mysql","fields":[{"name":"version","ty'
    'pe":"string"},{"name":"connector","type":"string"},{"name":"name","type":"string"},{"name":"ts_ms","type":"l'
    'ong"},{"name":"snapshot","type":[{"type":"string","connect.version":1,"connect.parameters":{"allowed":"true,'
    'first,first_in_data_collection,last_in_data_collection,last,false,incremental"},"connect.default":"false","c'
    'onnect.name":"io.debezium.data.Enum"},"null"],"default":"false"},{"name":"db","type":"string"},{"name":"sequ'
    'ence","type":["null","string"],"default":null},{"name":"ts_us","type":["null","long"],"default":null},{"name'
    '":"ts_ns","type":["null","long"],"default":null},{"name":"table","type":["null","string"],"default":null},{"'
    'name":"server_id","type":"long"},{"name":"gtid","type":["null","string"],"default":null},{"name":"file","typ'
    'e":"string"},{"name":"pos","type":"long"},{"name":"row","type":"int"},{"name":"thread","type":["null","long"'
    '],"default":null},{"name":"query","type":["null","string"],"default":null}],"connect.version":1,"connect.nam'
    'e":"io.debezium.connector.mysql.Source"}},{"name":"transaction","type":["null",{"type":"record","name":"bloc'
    'k","namespace":"event","fields":[{"name":"id","type":"string"},{"name":"total_order","type":"long"},{"name":'
    '"data_collection_order","type":"long"}],"connect.version":1,"connect.name":"event.block"}],"default":null},{'
    '"name":"op","type":"string"},{"name":"ts_ms","type":["null","long"],"default":null},{"name":"ts_us","type":['
    '"null","long"],"default":null},{"name":"ts_ns","type":["null","long"],"default":null}],"connect.version":2,"'
    'connect.name":"p.d.t.Envelope"}'
)


def value(after: str = '{"id":1}', before: str = "null", op: str = "c", source: str = SOURCE) -> bytes:
    """The value of a row without schema, as connector 3.6 writes it."""
    return f'{{"before":{before},"after":{after},"source":{source},"transaction":null,"op":"{op}",{CLOCK}}}'.encode()


def with_schema(field: str, content: str) -> bytes:
    """The value of a row with one column `v`, from its field schema without the name and its JSON."""
    row = f'{{"type":"struct","fields":[{{{field},"field":"v"}}],"optional":true,"name":"N.Value","field":"%s"}}'
    names = ",".join(f'{{"type":"string","optional":true,"field":"{name}"}}' for name in ("db", "table"))
    source = f'{{"type":"struct","fields":[{names}],"optional":false,"name":"S","field":"source"}}'
    fields = f'{row % "before"},{row % "after"},{source},{{"type":"string","optional":false,"field":"op"}}'
    payload = f'{{"before":null,"after":{{"v":{content}}},"source":{{"db":"inv","table":"t"}},"op":"c"}}'
    return f'{{"schema":{{"type":"struct","fields":[{fields}],"optional":false}},"payload":{payload}}}'.encode()


def record(key: bytes | None, data: bytes | None, **more: Any) -> dict[str, Any]:
    """A record at srv1.inv.t:0:41."""
    return {"topic": "srv1.inv.t", "partition": 0, "offset": 41, "key": key, "value": data, "headers": [], **more}


@cache
def _log(name: str) -> list[dict[str, Any]]:
    batches = record_log.read(DATA / "debezium-mysql" / f"{name}.jsonl.gz")
    rows: list[dict[str, Any]] = pa.Table.from_batches(batches).select(NAMES).to_pylist()
    return rows


def log(name: str) -> list[dict[str, Any]]:
    """The records of a recording."""
    return list(_log(name))


def decode(*records: Any, stores: Any = None, **options: Any) -> Decoded:
    """Decodes the records by the reference decoder."""
    return DEBEZIUM.decoder(DEBEZIUM.read_options(options), stores or Stores()).decode(record_batch(records))


def encode(changes: Decoded, stores: Any = None, **options: Any) -> pa.RecordBatch:
    """Encodes changes."""
    return DEBEZIUM.encoder(DEBEZIUM.read_options(options), stores or Stores()).encode(changes)


def bytes_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The columns of records that an encoder writes."""
    rows: list[dict[str, Any]] = batch.select(NAMES).to_pylist()
    return rows


def errors(decoded: Decoded) -> list[str]:
    """The messages of the dead letters."""
    return [letter.error for letter in decoded.dead]


def rows(decoded: Decoded) -> list[Row]:
    """The rows, in order."""
    return [event for event in in_order(decoded) if isinstance(event, Row)]


def one_insert(
    table: str = "t",
    column: str = "name",
    transaction: dict[str, Any] | None = None,
    origin: dict[str, Any] | None = None,
) -> Decoded:
    """An insert of another protocol."""
    columns = (
        Column("id", ColumnType("int"), False, True),
        Column(column, ColumnType("varchar", length=255), False, False),
    )
    builder = BatchBuilder("us")
    image = {"id": 1, column: "x"}
    shape = TableShape("d", table, columns)
    fields: dict[str, Any] = {
        "commit_time": TIME_US,
        "transaction": transaction,
        "origin": canonical(origin) if origin else None,
    }
    builder.add(shape, Place("e", 0, 7), "insert", before=None, after=image, **fields)
    return Decoded(builder.build())


def schema(base: str, name: str = "", parameters: str = "", optional: str = "true") -> str:
    more = f',"name":"{name}","version":1' if name else ""
    more += f',"parameters":{{{parameters}}}' if parameters else ""
    return f'"type":"{base}","optional":{optional}{more}'


def change(t: str, value: Any, *, nullable: Any = True, **options: Any) -> tuple[str, str]:
    """The field's schema and JSON for a value of another protocol."""
    columns = (Column("v", ColumnType.parse(t), nullable, False),)
    builder = BatchBuilder("us")
    row: dict[str, Any] = {"before": None, "after": {"v": value}, "commit_time": TIME_US}
    builder.add(TableShape("d", "t", columns), PLACE, "insert", **row)
    (record,) = bytes_of(encode(Decoded(builder.build()), **options))
    text = record["value"].decode()
    field = text.split('"fields":[', 2)[2].split('],"optional":true,"name":"changefeed.d.t.Value"', 1)[0]
    return field, text.rsplit('"after":{"v":', 1)[1].split('},"source"', 1)[0]
