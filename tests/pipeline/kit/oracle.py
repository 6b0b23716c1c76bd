"""A history's tables at any commit_ts, computed the slow and obvious way: one event after the other, in dicts.

It shares nothing with the pipeline except the decoder's canonical text. Of DDL it supports the few forms that the shop
history has, by regular expressions.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from changefeed import record_log
from changefeed.model import text
from changefeed.protocols import protocol
from changefeed.protocols.base import Stores

Row = dict[str, Any]
_COLUMN = re.compile(r"`(\w+)` (ENUM|SET)\(([^)]*)\)")


class History:
    """The events of a record log, each once, in the order of commit_ts."""

    def __init__(self, log: Path, name: str = "ticdc-open") -> None:
        log_protocol = protocol(name)
        decoder = log_protocol.decoder(log_protocol.read_options({}), Stores())
        events: list[tuple[tuple[int, int, int, int], dict[str, Any]]] = []
        seen: set[tuple[int, str]] = set()
        for records in record_log.read(log):
            for line in text.lines(decoder.decode(records)):
                event = json.loads(line)
                if event["kind"] not in ("row", "schema"):
                    continue
                if event["kind"] == "schema":
                    if (event["commit_ts"], event["ddl"]) in seen:
                        continue
                    seen.add((event["commit_ts"], event["ddl"]))
                _, partition, offset, *index = event["position"].split(":")
                place = (event["commit_ts"], int(partition), int(offset), int(index[0]) if index else 0)
                events.append((place, event))
        self.events = [event for _, event in sorted(events, key=lambda pair: pair[0])]

    def at(self, commit_ts: int | None) -> dict[str, list[Row]]:
        """Table -> rows after all events up to and including `commit_ts`; None for the end of the history."""
        tables: dict[str, Any] = {}
        members: dict[str, dict[str, tuple[str, list[str]]]] = {}
        for event in self.events:
            if commit_ts is not None and event["commit_ts"] > commit_ts:
                break
            if event["kind"] == "schema":
                _schema_change(event["ddl"], tables, members)
            else:
                _row(event, tables, members)
        return {name: list(t.values()) if isinstance(t, dict) else t for name, t in tables.items()}


def same_rows(actual: list[Row], wanted: list[Row]) -> str:
    """Empty if both have the same rows, in any order; else a description of the first difference."""
    left, right = (Counter(json.dumps(row, sort_keys=True) for row in rows) for rows in (actual, wanted))
    if left == right:
        return ""
    extra, missing = list((left - right).elements()), list((right - left).elements())
    return f"{len(actual)} rows for {len(wanted)}; not wanted: {extra[:2]}; missing: {missing[:2]}"


def _schema_change(ddl: str, tables: dict[str, Any], members: dict[str, Any]) -> None:
    name = (re.search(r"TABLE `\w+`\.`(\w+)`", ddl) or re.search(r"`(\w+)`", ddl))[1]  # type: ignore[index]
    for column, kind, names in _COLUMN.findall(ddl):
        members.setdefault(name, {})[column] = (kind, [m.strip("'") for m in names.split(",")])
    if ddl.startswith("CREATE TABLE"):
        tables[name] = {} if "PRIMARY KEY" in ddl else []
    elif ddl.startswith("TRUNCATE"):
        tables[name].clear()
    elif ddl.startswith("RENAME"):
        new = re.search(r"TO `\w+`\.`(\w+)`", ddl)[1]  # type: ignore[index]
        tables[new] = tables.pop(name)
        members[new] = members.get(name, {})
    elif match := re.search(r"ADD COLUMN `(\w+)` .*?(?:DEFAULT (\d+))?(?: AFTER|$)", ddl):
        for row in tables[name].values():
            row[match[1]] = int(match[2]) if match[2] else None
    elif match := re.search(r"DROP COLUMN `(\w+)`", ddl):
        for row in tables[name].values():
            del row[match[1]]
    elif match := re.search(r"RENAME COLUMN `(\w+)` TO `(\w+)`", ddl):
        for row in tables[name].values():
            row[match[2]] = row.pop(match[1])
    elif not re.search(r"MODIFY COLUMN|CREATE DATABASE", ddl):
        raise AssertionError(f"the oracle does not know {ddl!r}")


def _row(event: dict[str, Any], tables: dict[str, Any], members: dict[str, Any]) -> None:
    table, known = tables[event["table"]], members.get(event["table"], {})
    if not event["keys"]:
        table.append(_image(event["after"], known))
        return
    if event["before"] is not None:
        table.pop(tuple(event["before"][k] for k in event["keys"]), None)
    if event["after"] is not None:
        table[tuple(event["after"][k] for k in event["keys"])] = _image(event["after"], known)


def _image(image: Row, known: dict[str, tuple[str, list[str]]]) -> Row:
    return {
        name: _member(value, *known[name]) if name in known and value is not None else value
        for name, value in image.items()
    }


def _member(value: Any, kind: str, names: list[str]) -> Any:
    if kind == "ENUM":
        return names[value["index"] - 1]
    return ",".join(name for bit, name in enumerate(names) if value["bits"] >> bit & 1)
