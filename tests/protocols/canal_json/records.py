"""Records of canal-json, decoded and encoded."""

from __future__ import annotations

import json
from typing import Any

from changefeed.model.batch import Decoded, record_batch
from changefeed.protocols import protocol
from changefeed.protocols.base import Stores
from tests.protocols.conformance.cases import lines

COMMIT_TS = 463267594595935302
EXTENDED = {"enable-tidb-extension": "true"}


def row(
    data: Any, old: Any = None, types: Any = None, *, kind: str = "INSERT", keys: Any = ("id",), **more: Any
) -> str:
    """A message as TiCDC writes it; by default `id` is INT and other columns are VARCHAR."""
    columns = data[0] if data else {}
    types = {name: "int" if name == "id" else "varchar" for name in columns} if types is None else types
    numbers = {name: 4 if text == "int" else 12 for name, text in types.items()}
    message = {"id": 0, "database": "shop", "table": "t", "pkNames": keys, "isDdl": False, "type": kind}
    message |= {"es": COMMIT_TS >> 18, "ts": 1767225627000, "sql": "", "sqlType": numbers, "mysqlType": types}
    return json.dumps({**message, "old": old, "data": data, **more}, separators=(",", ":"), ensure_ascii=False)


def decoded(*values: str | bytes, stores: Stores | None = None, **options: Any) -> Decoded:
    """Decodes these values, one record each, by a new decoder."""
    canal = protocol("canal-json")
    rows = [
        {"topic": "t", "partition": 0, "offset": n, "value": v.encode() if isinstance(v, str) else v}
        for n, v in enumerate(values)
    ]
    return canal.decoder(canal.read_options(named(options)), stores or Stores()).decode(record_batch(rows))


def encoded(changes: Decoded, stores: Stores | None = None, **options: Any) -> list[bytes]:
    """The values of the records that a new encoder writes."""
    canal = protocol("canal-json")
    encoder = canal.encoder(canal.read_options(named(options)), stores or Stores())
    values: list[bytes] = encoder.encode(changes).column("value").to_pylist()
    return values


def named(options: dict[str, Any]) -> dict[str, Any]:
    """Options by their names with `-`."""
    return {name.replace("_", "-"): value for name, value in options.items()}


def rows(changes: Decoded) -> list[dict[str, Any]]:
    """The row events."""
    return [event for event in map(json.loads, lines(changes)) if event["kind"] == "row"]


def errors(changes: Decoded) -> list[str]:
    """The errors of the dead letters."""
    return [letter.error for letter in changes.dead]
