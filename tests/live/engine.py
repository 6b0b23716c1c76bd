"""The engine's own faults: a history that it has spoiled does not test the pipeline.

The engine keeps a picture of each table of its own, by its own parser: it is in the schema changes, and rows have its columns. If
it differs from the server's catalogue after the same statement, the engine has misunderstood a statement. Some values it
changes by itself: those that are known by their type, and those of a row that it has sent just so.

MariaDB 10.11.19 has a fault of its own: ALTER TABLE with RENAME and a clause for which it copies the table leaves the old table
there, too, if its name is not of letters, digits and underscores (`my table`).
"""

from __future__ import annotations

import math
import re
import struct
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl.statements import CreateTable, DropTable, RenameTable
from tests.live.comparing import Difference
from tests.live.history import History
from tests.live.recording import payload_of

_ZERO_DATE = re.compile(r"'(0000-\d\d|\d{4}-00|\d{4}-\d\d-00)")
_CREATE = re.compile(r"CREATE (OR REPLACE )?TABLE ", re.IGNORECASE)
_COPIED_AND_RENAMED = re.compile(
    r"ALTER [A-Z ]*TABLE (IF EXISTS )?(`?\w+`?\.)?`\w*[^\w`][^`]*` .*, RENAME (?!COLUMN|KEY|INDEX)",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
_LIKE = re.compile(r"CREATE [^(]*\(?\s*LIKE\b", re.IGNORECASE)
_ID = re.compile(r'"((?:[^"]|"")*)"\."(.*)"$')
_SENT_AS_THEY_ARE = frozenset(
    {
        "tinyint", "smallint", "mediumint", "int", "bigint", "char", "varchar", "tinytext", "text", "mediumtext", "longtext",
        "enum", "set", "double",
    }
)  # fmt: skip
_TEMPORAL = frozenset({"date", "time", "datetime", "timestamp", "year"})
_NUMBERS = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), "integer"), "decimal": "decimal",
    "float": "real", "double": "real",
}  # fmt: skip
_Payload = dict[str, Any]
_Columns = list[tuple[str, str]]  # name and type; the type is empty if a record does not have it


def spoiled(history: History, different: tuple[Difference, ...], text: str) -> str:
    """The engine's fault about the tables that differ, or that a stop names; empty if there is none."""
    if different and _keeps_renamed(history):
        return "the server keeps a table that it has renamed"
    if different and all(d.what in ("rows", "columns") for d in different) and (place := _passed_over(history)):
        return f"the changes before {place}: a snapshot begins there, and has no rows"
    for d in different:
        is_empty = (d.what == "tables" and d.actual == "missing") or (d.what == "rows" and not d.column)
        if is_empty and _is_without_rows(d.table, history):
            return f"{d.table}: no record has a row of it"
    if different and _is_named_as_written(different, history):
        return f"{different[0].table}: no record has the name by which the server stores the table"
    wrong = misunderstood(history)
    for name, reason in wrong.items():
        if any(d.table == name for d in different) or name in text or name.replace(".", "`.`") in text:
            return f"{name}: {reason}"
    if different and all(is_known(d, history) or _is_of_rows(d, different) for d in different):
        known = [str(d) for d in different if is_known(d, history)]
        return f"values: {known[0]}" if known else ""
    return ""


def _keeps_renamed(history: History) -> bool:
    """Whether MariaDB has kept a table that it has renamed, see the head of this file."""
    return history.server == "mariadb" and any(_COPIED_AND_RENAMED.search(s.text) for s in history.executed)


def _passed_over(history: History) -> str:
    """The place at which a snapshot without rows begins behind what was sent before it; empty if there is none.

    An engine that is killed before it has stored an offset begins again so, with the mode `no_data`.
    """
    if not history.engine.startswith(("streamed", "no_data")):
        return ""
    newest = ("", 0)
    for event in history.events:
        source = payload_of(event).get("source")
        if not isinstance(source, dict) or not source.get("file"):
            continue
        place = str(source["file"]), int(source["pos"])
        if source.get("snapshot") and ("", 0) < newest < place:
            return f"{place[0]}:{place[1]}"
        newest = max(newest, place)
    return ""


def _is_without_rows(table: str, history: History) -> bool:
    """Whether rows were written into a table that is seen from its CREATE on, and the engine has sent none of them."""
    is_created = False
    for event in history.events:
        payload = payload_of(event)
        source, ddl = payload.get("source"), str(payload.get("ddl", ""))
        if not isinstance(source, dict) or f"{source.get('db')}.{source.get('table')}" != table:
            continue
        if "RENAME" in ddl.upper() or "op" in payload:
            return False
        is_created = is_created or _CREATE.match(ddl) is not None
    return is_created


def _is_named_as_written(different: tuple[Difference, ...], history: History) -> bool:
    """Whether tables only have the upper case of the statement that named them: the newest record with a table spells it so.

    A server that stores names in lower case, and one that only compares them so, send the same.
    """
    pairs = len(different) == 2 * len({d.table.lower() for d in different})
    if not history.lower_case or not pairs or any(d.what != "tables" for d in different):
        return False
    newest = {name.lower(): name for payload in _fresh(history) for name, _ in _pictures(payload)}
    return all(newest.get(d.table.lower()) == d.table for d in different if d.actual == "there")


def misunderstood(history: History) -> dict[str, str]:
    """`database.table` -> the first thing that the engine has got wrong about it."""
    statements = history.executed
    states: dict[str, list[tuple[int, _Columns]]] = defaultdict(list)
    for number, statement in enumerate(statements):
        for name, described in statement.columns.items():
            states[name].append((number, [(column, kind) for column, kind in described]))
    texts = [_spaced(statement.text) for statement in statements]
    failed = {_without_spaces(statement.text) for statement in history.statements if statement.error is not None}
    wrong, pictures = dict[str, str](), dict[str, _Columns]()
    done, is_exact, last = -1, False, ""
    for payload in _fresh(history):
        if "ddl" in payload:
            last = str(payload["ddl"])
            if (payload.get("source") or {}).get("snapshot"):
                is_exact = False
            else:
                # MariaDB has dropped the table, and no record names the error
                if any(text.endswith(_without_spaces(last)) for text in failed):  # it may begin with a comment
                    dropped = [name.lower() if history.lower_case else name for name in _dropped(last, payload)]
                    wrong |= dict.fromkeys(dropped, f"sent what had failed: {last[:200]!r}")
                    continue
                number_of_ddl = _find(texts, _spaced(last), done)
                if number_of_ddl is not None:
                    done, is_exact = number_of_ddl, True
                    if not payload.get("tableChanges") and ("/*!" in last or _CREATE.match(last)):
                        wrong |= {
                            name: f"passed over {last[:200]!r}"
                            for name, columns in statements[done].columns.items()
                            if columns and name not in wrong
                        }
        for name, picture in _pictures(payload):
            pictures[name] = picture
            its_states = states.get(name, [])
            if is_exact:
                its_states = [state for state in its_states if state[0] <= done][-1:]
            if its_states and not any(_is_of_table(picture, columns) for _, columns in its_states):
                wrong.setdefault(name, f"{picture} at {last[:200]!r}")
    for name, its_states in states.items():
        if (columns := its_states[-1][1]) and not _is_of_table(pictures.get(name, []), columns):
            wrong.setdefault(name, f"its last picture is {pictures.get(name)}")
    wrong |= dict(_copies(history, wrong))
    return wrong | dict(_renamed(history, wrong))


def _renamed(history: History, wrong: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The new names of tables that the engine has got wrong, with its reason."""
    for payload in _fresh(history):
        for old, new in _renames(payload):
            if old in wrong:
                yield new, f"was {old}: {wrong[old]}"


def _renames(payload: _Payload) -> Iterator[tuple[str, str]]:
    """The old and the new names in a RENAME TABLE."""
    ddl = str(payload.get("ddl") or "")
    for statement in parse(ddl, payload.get("databaseName")) if ddl.upper().startswith("RENAME") else ():
        if isinstance(statement, RenameTable):
            yield f"{statement.database}.{statement.table}", f"{statement.to_database}.{statement.to_table}"


def _copies(history: History, wrong: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The tables that were made like one that the engine has got wrong, with its reason: it copies its picture."""
    for statement in history.executed:
        for name in statement.columns if _LIKE.match(statement.text) else ():
            for created in parse(statement.text, name.partition(".")[0]):
                model = ".".join(created.like or ()) if isinstance(created, CreateTable) else ""
                if model in wrong:
                    yield name, f"made like {model}: {wrong[model]}"


def _dropped(ddl: str, payload: _Payload) -> list[str]:
    """The tables that a statement drops."""
    return [f"{s.database}.{s.table}" for s in parse(ddl, payload.get("databaseName")) if isinstance(s, DropTable)]


def _pictures(payload: _Payload) -> Iterator[tuple[str, _Columns]]:
    """Tables with the columns that a record gives them."""
    for change in payload.get("tableChanges") or ():
        if change.get("table"):
            yield _name_of(change["id"]), [(c["name"], c["typeName"].lower()) for c in change["table"]["columns"]]
    source = payload.get("source")
    for image in ("before", "after"):
        row = payload.get(image)
        if isinstance(source, dict) and isinstance(row, dict) and "op" in payload:
            yield f"{source['db']}.{source['table']}", [(column, "") for column in row]


def _is_of_table(picture: _Columns, columns: _Columns) -> bool:
    """Whether a picture has a table's columns.

    Of types, dates and times must be the same, JSON that became bytes, and whether a number is whole, decimal or neither.
    """
    if [name for name, _ in picture] != [name for name, _ in columns]:
        return False
    kinds = [(kind, right.partition("(")[0]) for (_, kind), (_, right) in zip(picture, columns, strict=True)]
    return not any(
        kind
        and kind != right
        and ((kind, right) == ("json", "longblob") or not _TEMPORAL.isdisjoint((kind, right)) or _is_other(kind, right))
        for kind, right in kinds
    )


def _is_other(kind: str, right: str) -> bool:
    """Whether two types are numbers of different kinds."""
    numbers = {_NUMBERS.get(name.split(" ")[0], "") for name in (kind, right)}
    return len(numbers) == 2 and "" not in numbers


def _fresh(history: History) -> Iterator[_Payload]:
    """The records, without those that were sent again after a restart."""
    newest = ("", 0)
    for event in history.events:
        payload = payload_of(event)
        source = payload.get("source")
        if isinstance(source, dict) and source.get("file") and not source.get("snapshot"):
            place = str(source["file"]), int(source["pos"])
            if place < newest:
                continue
            newest = place
        yield payload


def _find(texts: list[str], ddl: str, done: int) -> int | None:
    """The statement of a schema change; the engine splits statements about several tables."""
    for number in range(max(done, 0), len(texts)):
        if texts[number] == ddl or texts[number].endswith(ddl):
            return number
    words = ddl.split(" ")
    for number in range(max(done, 0), len(texts)):
        if "," in texts[number] and all(word in texts[number] for word in words[2:]) and words[0] in texts[number]:
            return number
    return None


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _without_spaces(text: str) -> str:
    return "".join(text.split())


def _name_of(identity: str) -> str:
    """`database.table` of the engine's `"database"."table"`."""
    match = _ID.match(identity)
    return "" if match is None else f"{match[1]}.{match[2]}".replace('""', '"')


def _is_of(identity: str, table: str, history: History) -> bool:
    """Whether the engine's `"database"."table"` is a table of the server."""
    name = _name_of(identity)
    return name == table or (history.lower_case and name.lower() == table)


def is_known(difference: Difference, history: History) -> bool:
    """Whether the engine changes such a value by itself."""
    if difference.what != "rows" or not difference.column:
        return False
    actual, right = difference.actual, difference.right
    kind = {name: kind for name, kind, _ in history.tables[difference.table].columns}.get(difference.column, "")
    if _ZERO_DATE.match(right) or (right == "None" and _is_taken_for_not_null(difference, history)):
        return True
    if kind.startswith("year"):
        return right == "Decimal('0')" and actual in ("Decimal('1900')", "None")
    if kind.startswith("tinyint(1)") and actual == "Decimal('1')":
        return True
    if kind.startswith("json") and actual == "'{}'" and right == "'None'":  # a JSON of no bytes, which is null
        return True
    if kind.startswith("float"):  # a snapshot reads six digits
        return abs(_float(actual) - _float(right)) <= 1e-5 * abs(_float(right))
    return _was_sent(difference, history)


def _is_taken_for_not_null(difference: Difference, history: History) -> bool:
    """Whether the engine's definition of a column with NULL does not allow it, or did not when it sent another value."""
    taken, name = False, difference.column
    for payload in _fresh(history):
        after = payload.get("after")
        if taken and isinstance(after, dict) and name in after and after[name] == difference.row.get(name):
            return True
        for change in payload.get("tableChanges") or ():
            if _is_of(change["id"], difference.table, history) and change.get("table"):
                columns = {column["name"]: column for column in change["table"]["columns"]}
                taken = name in columns and columns[name].get("optional") is False
    return taken


def _was_sent(difference: Difference, history: History) -> bool:
    """Whether the engine has sent just this row, and no schema change has touched the column since."""
    rows, names = list[_Payload](), _earlier_names(difference.table, history)
    definitions: dict[str, Any] = {}
    changed: dict[str, int] = {}  # column -> number of rows before its last change
    for payload in _fresh(history):
        for change in payload.get("tableChanges") or ():
            if any(_is_of(change["id"], name, history) for name in names) and change.get("table"):
                columns = {
                    c["name"]: {k: v for k, v in c.items() if k != "position"} for c in change["table"]["columns"]
                }
                changed |= {name: len(rows) for name, column in columns.items() if definitions.get(name) != column}
                definitions = columns
        source, after = payload.get("source"), payload.get("after")
        is_row = isinstance(source, dict) and isinstance(after, dict) and "op" in payload
        if is_row and f"{source['db']}.{source['table']}" in names:  # type: ignore[index]
            rows.append(after)  # type: ignore[arg-type]
    kinds = {name: re.split(r"[ (]", kind)[0] for name, kind, _ in history.tables[difference.table].columns}
    plain = {
        name: int(value) if isinstance(value, Decimal) and value == int(value) else value
        for name, value in difference.row.items()
        if kinds[name] in _SENT_AS_THEY_ARE
    }
    if difference.column not in plain:
        return False
    return any(
        all(row.get(name) == value for name, value in plain.items() if changed.get(name, 0) <= number)
        for number, row in enumerate(rows)
        if number >= changed.get(difference.column, 0)
    )


def _earlier_names(table: str, history: History) -> set[str]:
    """A table's name, and those that it had before."""
    names = {table}
    for payload in reversed([*_fresh(history)]):
        for old, new in reversed([*_renames(payload)]):
            names |= {old} if new in names else set()
    return names


def _float(text: str) -> float:
    """A float of a difference, which has its bytes."""
    try:
        (number,) = struct.unpack("f", bytes.fromhex(text.strip("'")))
    except (ValueError, struct.error):
        return math.nan
    return float(number)


def _is_of_rows(difference: Difference, different: tuple[Difference, ...]) -> bool:
    """Whether it is only the number of rows that differ, beside the columns in which they do."""
    return (
        difference.what == "rows"
        and not difference.column
        and any(d.column and d.table == difference.table for d in different)
    )
