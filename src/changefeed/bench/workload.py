"""The workload for `decode`: rows of an orders table in Open Protocol, about 440 bytes per value, generated from a seed.

The first half is as the classic producer writes it (columns by name, `rid` in the key), the rest as the new architecture
does. One row in ten is an update with both images, one in twenty a delete, with NULLs, escapes and non-ASCII characters.
"""

from __future__ import annotations

import random
from base64 import b64encode
from itertools import islice

import pyarrow as pa

from changefeed.model.batch import RECORDS

TOPIC = "orders"
_FIRST_TS = 463_267_594_595_935_302
_START_US = 1_767_225_600_000_000
_NAMES = ("Ada Lovelace", "Łukasz Nowak", "O'Hara and Sons", 'Anna \\"Q\\" Berg', "北京 Trading", "a plain customer")
# The table's columns in order: name -> the text between the name and the value.
COLUMNS = {
    "id": '{"t":8,"h":true,"f":139,"v":',
    "customer": '{"t":15,"f":64,"v":',
    "status": '{"t":247,"f":0,"v":',
    "total": '{"t":246,"f":65,"v":',
    "note": '{"t":252,"f":64,"v":',
    "placed": '{"t":10,"f":1,"v":',
    "updated": '{"t":7,"f":65,"v":',
    "weight": '{"t":5,"f":65,"v":',
    "qty": '{"t":3,"f":129,"v":',
}
# The schema for Spark's from_json: the same columns, each an object with only the value.
JSON_TYPES = {
    "id": "decimal(20,0)",
    "customer": "string",
    "status": "int",
    "total": "string",
    "note": "binary",
    "placed": "date",
    "updated": "timestamp",
    "weight": "double",
    "qty": "bigint",
}


def records(count: int, *, seed: int = 1, rows_in_record: int = 1) -> pa.Table:
    """Returns records with `count` rows in total, with the columns of `model.batch.RECORDS`.

    Args:
        count: number of rows.
        seed: seed of the values.
        rows_in_record: number of messages per record; the last record may have fewer.
    """
    r = random.Random(seed)
    messages = iter([_message(r, number, classic=number < count // 2) for number in range(count)])
    keys, values = [], []
    while some := list(islice(messages, rows_in_record)):
        keys.append((1).to_bytes(8, "big") + b"".join(framed(key) for key, _ in some))
        values.append(b"".join(framed(value) for _, value in some))
    total = len(keys)
    columns = {
        "key": keys,
        "value": values,
        "topic": [TOPIC] * total,
        "partition": pa.repeat(pa.scalar(0, pa.int32()), total),
        "offset": range(total),
        "timestamp": pa.repeat(pa.scalar(_START_US, RECORDS.field("timestamp").type), total),
        "timestampType": pa.repeat(pa.scalar(0, pa.int32()), total),
        "headers": [[]] * total,
    }
    return pa.Table.from_pydict(columns, schema=RECORDS)


def framed(data: bytes) -> bytes:
    """A message with its length, as the Open Protocol frames it."""
    return len(data).to_bytes(8, "big") + data


def _message(r: random.Random, number: int, *, classic: bool) -> tuple[bytes, bytes]:
    columns = sorted(COLUMNS) if classic else list(COLUMNS)
    rid = f',"rid":{number + 1}' if classic else ""
    key = f'{{"ts":{_FIRST_TS + number},"scm":"shop","tbl":"orders"{rid},"t":1}}'
    kind = r.random()
    if kind < 0.05:
        value = f'{{"d":{_image(r, number, columns)}}}'
    elif kind < 0.15:
        value = f'{{"u":{_image(r, number, columns)},"p":{_image(r, number, columns)}}}'
    else:
        value = f'{{"u":{_image(r, number, columns)}}}'
    return key.encode(), value.encode()


def _image(r: random.Random, number: int, columns: list[str]) -> str:
    bits = r.getrandbits(64)  # one draw, sliced: drawing each value on its own takes twice as long
    day, month = bits % 28 + 1, bits // 28 % 12 + 1
    values = {
        "id": number + 1,
        "customer": f'"{_NAMES[bits % 6]} {number}"',
        "status": bits % 4 + 1,
        "total": f'"{bits >> 44}.{bits % 10_000:04}"' if bits % 10 else "null",
        "note": f'"{b64encode(f"order {bits:x}".encode()).decode()}"' if bits % 7 else "null",
        "placed": f'"2026-{month:02}-{day:02}"',
        "updated": f'"2026-{month:02}-{day:02} {bits % 24:02}:{bits % 60:02}:07.{bits % 1_000_000:06}"',
        "weight": bits / 2**60,
        "qty": bits % 100_000,
    }
    return "{" + ",".join(f'"{name}":{COLUMNS[name]}{values[name]}}}' for name in columns) + "}"
