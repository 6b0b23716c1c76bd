"""Finds the members that the transform ExtractNewRecordState has added to a row without envelope.

    {"id":1,"name":"x","__deleted":"false","__op":"c","__source_ts_ms":1795248617000,"ingested_at":1764000000000}
     columns           added by the transform                                         a column: of another transform

    member                                      refers to
    __deleted                                   the handling of deletes; no prefix applies to it
    <add.fields.prefix><field>                  a field of the envelope, of its source block or its transaction block
    <add.fields.prefix>source_<field>           add.fields=source.<field>; transaction_<field> likewise
    <add.fields.prefix><name>                   add.fields=<field>:<name>

Rule 1. With the option `add.fields`, exactly the members that it names are added; `__deleted` too, unless the option
        `delete.tombstone.handling.mode` has a mode in which the transform does not write it.
Rule 2. Without it, a member is added if its name and its value are those that the transform writes, wherever it stands: other
        transforms put fields before and behind it. Short names that tables also use, such as `__name` and `__row`, are added
        only beside others that are, or at the end of the row.
Rule 3. A member of the key is a column, and so is every other member.
Rule 4. Headers (`add.headers`) have the same names, and count where the row has no such member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

from changefeed.columnar.records import Headers
from changefeed.connect import java_json
from changefeed.errors import ConfigError, ProtocolError
from changefeed.protocols.debezium_mysql.envelope import CLOCK, INTEGERS, OPS, TEXTS, TRANSACTION
from changefeed.protocols.debezium_mysql.values.times import as_number

DELETED = "__deleted"
_REWRITES = ("rewrite", "rewrite-with-tombstone")
_OF_SOURCE = (*TEXTS, *INTEGERS, *CLOCK, "db", "table", "snapshot")
_TEXTS = frozenset({"version", "connector", "name", "sequence", "gtid", "file", "query", "db", "table"})
_STRUCTS = {"source": frozenset(_OF_SOURCE), "transaction": frozenset(TRANSACTION)}
_OF_ENVELOPE = frozenset({"op", *CLOCK})
_UNUSUAL = frozenset({"op", *CLOCK, "db", "table"})  # no table has columns of these names with the prefix
_FLAGS: dict[Any, bool] = {"true": True, "false": False, True: True, False: False}


class Rules(NamedTuple):
    """The transform's settings.

    Attributes:
        prefix: `add.fields.prefix`.
        fields: `add.fields`; None if the option is not given.
        mode: `delete.tombstone.handling.mode`; None if the option is not given.
    """

    prefix: str
    fields: str | None
    mode: str | None


def added(tree: Mapping[str, Any], keys: Iterable[str], rules: Rules) -> dict[str, str]:
    """Returns the added members of a row: name -> the field that it refers to, such as `op`, `source.pos`, `deleted`."""
    names = tuple(tree)
    references = _references(names, rules)
    if not references:
        return {}
    references = {name: field for name, field in references.items() if name not in keys}
    if rules.mode is None:
        references = {n: f for n, f in references.items() if f != "deleted" or flag(tree[n]) is not None}
    if rules.fields is not None:
        return references
    return _beside_others(names, {n: f for n, f in references.items() if _fits(f, tree[n])}, rules)


def flag(value: Any) -> bool | None:
    """The meaning of `__deleted`, which is a text or a boolean; None if the transform does not write such a value."""
    return _FLAGS.get(value) if type(value) in (str, bool) else None


def of_headers(headers: Headers, prefix: str) -> dict[str, Any]:
    """Returns the fields that `add.headers` has added: the field that a header refers to -> its value."""
    fields: dict[str, Any] = {}
    for name, data in headers:
        field = _reference(name, prefix) if name.startswith(prefix) else None
        if field is not None and data is not None:
            fields[field] = _content(data)
    return fields


def _content(data: bytes) -> Any:
    """Returns the content of a header: JSON with or without a schema, or a text as it stands."""
    try:
        tree = java_json.read(data, "header")
    except ProtocolError:
        return data.decode("utf-8", "replace")
    return tree["payload"] if isinstance(tree, dict) and tree.keys() == {"schema", "payload"} else tree


@lru_cache(1024)
def _references(names: tuple[str, ...], rules: Rules) -> dict[str, str]:
    fields = {} if rules.fields is None else named_fields(rules.fields, rules.prefix)
    references = {}
    for name in names:
        if name == DELETED:
            field = "deleted" if rules.mode is None or rules.mode in _REWRITES else None
        elif rules.fields is not None:
            field = fields.get(name)
        else:
            field = _reference(name, rules.prefix) if name.startswith(rules.prefix) else None
        if field is not None:
            references[name] = field
    return references


@cache
def named_fields(text: str, prefix: str) -> dict[str, str]:
    """Parses the option `add.fields`; returns the name of each member -> the field that it refers to.

    Raises:
        ConfigError: the text is invalid.
    """
    members: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        path, _, name = entry.partition(":")
        struct, _, field = path.rpartition(".")
        known = _reference(prefix + field, prefix)
        if not field or ":" in name or struct not in ("", *_STRUCTS):
            raise ConfigError(f"add.fields: {entry!r} is not <field>, <struct>.<field> or <field>:<name>")
        members[prefix + (name or path.replace(".", "_"))] = f"{struct}.{field}" if struct else known or field
    return members


def _reference(name: str, prefix: str) -> str | None:
    """Returns the field that a member refers to by its name; None if the name is not one of the transform's."""
    short = name.removeprefix(prefix)
    if short in _OF_ENVELOPE:
        return short
    for struct, fields in _STRUCTS.items():
        field = short.removeprefix(f"{struct}_")
        if field in fields:
            return f"{struct}.{field}"
    return None


def _fits(field: str, value: Any) -> bool:
    """Whether the transform writes such a value for a field."""
    name = field.rpartition(".")[2]
    if name == "deleted":
        return flag(value) is not None
    if name == "op":
        return type(value) is str and OPS.get(value, "truncate") != "truncate"
    if name in ("db", "table"):
        return type(value) is str
    if name == "snapshot":
        return type(value) in (str, bool, type(None))
    if name in _TEXTS or field == "transaction.id":
        return type(value) in (str, type(None))
    return value is None or as_number(value)


def _beside_others(names: tuple[str, ...], references: dict[str, str], rules: Rules) -> dict[str, str]:
    """Leaves out short names that stand among columns: see rule 2."""
    runs: list[list[str]] = [[]]
    for name in names:
        if name in references:
            runs[-1].append(name)
        elif runs[-1]:
            runs.append([])
    kept = [run for run in runs if any(_is_unusual(name, references[name], rules.prefix) for name in run)]
    if runs[-1] and runs[-1] not in kept:  # at the end of the row
        kept.append(runs[-1])
    return {name: references[name] for run in kept for name in run}


def _is_unusual(name: str, field: str, prefix: str) -> bool:
    short = name.removeprefix(prefix)
    return name == DELETED or short in _UNUSUAL or short.startswith(tuple(f"{struct}_" for struct in _STRUCTS))
