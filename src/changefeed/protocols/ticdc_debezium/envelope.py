"""Reads and writes the `source` block: table, transaction and cluster.

    {"version":"2.4.0.Final","connector":"TiCDC","name":"default","ts_ms":1767225607186,"snapshot":"false","db":"shop",
     "table":"orders","server_id":0,"gtid":null,"file":"","pos":0,"row":0,"thread":0,"query":null,
     "commit_ts":463267589570222217,["start_ts":463267589570222210,]"cluster_id":"default"}

Rule 1. `ts_ms` is the millisecond of `commit_ts`, `name` is the cluster's id. Other members, except names and timestamps, are
        constant; one that differs is kept in the origin.
Rule 2. A missing or unknown member is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from changefeed.errors import ProtocolError, SchemaError
from changefeed.ticdc import tso
from changefeed.wire.go_json import W_RAW
from changefeed.wire.json_form import INT64, UINT64, integer, mapping, refuse_others, show, string
from changefeed.wire.strict_json import REPLACED, Number

CONNECTOR = "TiCDC"
# What never changes, in the order of the block; None stands for the members between.
_CONSTANTS: dict[str, str | int | None] = {
    "version": "2.4.0.Final",
    "snapshot": "false",
    "server_id": 0,
    "gtid": None,
    "file": "",
    "pos": 0,
    "row": 0,
    "thread": 0,
    "query": None,
}
_MEMBERS = {"connector", "name", "ts_ms", "db", "table", "commit_ts", "cluster_id", *_CONSTANTS}


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """The members of `source` as values: the time and the place of a change in the upstream log.

    Attributes:
        others: members that differ from those that current producers write.
    """

    database: str
    table: str
    commit_ts: int
    cluster_id: str
    start_ts: int | None = None
    others: Mapping[str, str | int | None] = field(default_factory=dict)


def read(payload: dict[str, Any]) -> SourceBlock:
    """Reads the source block of a payload.

    Raises:
        ProtocolError: the block is not one of TiCDC's.
    """
    block = mapping(payload.get("source"), "source", "payload.source")
    where = "payload.source."
    if block.get("connector") != CONNECTOR:
        message = f"{show(block.get('connector'))} is not the connector {CONNECTOR} - at `{where}connector`"
        raise ProtocolError(message, reason="unknown-kind")
    refuse_others(block, _MEMBERS | {"start_ts"}, "source", "payload.source")
    missing = sorted(_MEMBERS - block.keys())
    if missing:
        raise SchemaError(f"source lacks {', '.join(missing)} - at `payload.source`")
    commit_ts = integer(block, "commit_ts", UINT64, where)
    if integer(block, "ts_ms", INT64, where) != tso.milliseconds(commit_ts):
        raise SchemaError(f"{block['ts_ms']} is not the millisecond of commit_ts {commit_ts} - at `{where}ts_ms`")
    cluster_id = string(block, "cluster_id", where)
    others = {name: _constant(block[name], where + name) for name in _CONSTANTS if _differs(block[name], name)}
    if block["name"] != cluster_id:
        others["name"] = string(block, "name", where)
    return SourceBlock(
        string(block, "db", where),
        string(block, "table", where),
        commit_ts,
        cluster_id,
        integer(block, "start_ts", UINT64, where) if "start_ts" in block else None,
        others,
    )


def _differs(value: Any, name: str) -> bool:
    usual = _CONSTANTS[name]
    return type(value) is not Number or value != str(usual) if type(usual) is int else value != usual


def _constant(value: Any, where: str) -> str | int | None:
    if type(value) is Number:
        return integer({"": value}, "", INT64, where)
    if value is not None and type(value) is not str:
        raise SchemaError(f"{show(value)} is neither text nor number - at `{where}`")
    return None if value is None else value.replace(REPLACED, "\ufffd")


def write(source: SourceBlock) -> str:
    """Returns the text of a source block."""
    return "{" + ",".join(f'"{name}":{text}' for name, text in members(source).items()) + "}"


def members(source: SourceBlock) -> dict[str, str]:
    """Returns the members of a source block in order, with their texts."""
    constant = {name: _text(source.others.get(name, usual)) for name, usual in _CONSTANTS.items()}
    texts = {
        "version": constant.pop("version"),
        "connector": _text(CONNECTOR),
        "name": _text(source.others.get("name", source.cluster_id)),
        "ts_ms": str(tso.milliseconds(source.commit_ts)),
        "snapshot": constant.pop("snapshot"),
        "db": _text(source.database),
        "table": _text(source.table),
        **constant,
        "commit_ts": str(source.commit_ts),
    }
    if source.start_ts is not None:
        texts["start_ts"] = str(source.start_ts)
    texts["cluster_id"] = _text(source.cluster_id)
    return texts


def _text(value: str | int | None) -> str:
    return "null" if value is None else str(value) if type(value) is int else W_RAW.string(str(value))


def origin(source: SourceBlock) -> dict[str, Any]:
    """Returns the members of the block that a row has no attribute for, for its origin."""
    return {"cluster_id": source.cluster_id, **source.others}


def mark(payload: dict[str, Any], source: SourceBlock) -> dict[str, Any]:
    """Returns the origin of an event that is not a row; `connector` in it identifies the protocol."""
    start = {} if source.start_ts is None else {"start_ts": source.start_ts}
    ts_ms = integer(payload, "ts_ms", INT64, "payload.")
    return {"connector": CONNECTOR, "ts_ms": ts_ms, **origin(source), **start}


def of(
    origin: Mapping[str, Any], database: str, table: str, commit_ts: int, cluster_id: str, start_ts: int | None = None
) -> SourceBlock:
    """Creates the source block of an event; if its origin is empty, the cluster is `cluster_id`."""
    names = [name for name in ("name", *_CONSTANTS) if name in origin]
    cluster, start = origin.get("cluster_id"), origin.get("start_ts", start_ts)
    return SourceBlock(
        database,
        table,
        commit_ts,
        cluster if isinstance(cluster, str) else cluster_id,
        start if isinstance(start, int) else None,
        {name: origin[name] for name in names if isinstance(origin[name], str | int | None)},
    )


def clock(origin: Mapping[str, Any], commit_ts: int) -> int:
    """Returns the producer's clock in milliseconds since 1970; the commit time if the origin does not have it."""
    ts_ms = origin.get("ts_ms")
    return ts_ms if isinstance(ts_ms, int) else tso.milliseconds(commit_ts)
