"""The contents of the pages as plain values: what a page's template shows, and what its `.json` twin is.

`commit_ts` is a text, as in every JSON document of changefeed; times are ISO texts in UTC; what is not known is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import yaml

from changefeed.errors import ChangefeedError, ConfigError
from changefeed.model.definition import Table
from changefeed.model.names import full_name
from changefeed.model.position import Place
from changefeed.monitor.finding import FoundPipeline
from changefeed.monitor.reading import Glance, PipelineReader
from changefeed.monitor.steps import StepRow
from changefeed.pipeline.config import yaml_file
from changefeed.pipeline.events.status import event_lag_dict
from changefeed.pipeline.letter_files import LetterSummary, StoredLetter
from changefeed.pipeline.monitoring.cuts import cut_text, offset_in_json, offset_text
from changefeed.pipeline.monitoring.lag import lag_text
from changefeed.pipeline.monitoring.texts import failure_text, run_text
from changefeed.pipeline.monitoring.view import RETRYING, STOPPED, RunNow
from changefeed.pipeline.state import State
from changefeed.redaction import HIDDEN, is_secret, redact
from changefeed.sinks.section import version_in_json
from changefeed.ticdc import tso

TABLES, LETTERS, STEPS = 200, 100, 60  # entries of one page
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ERRORS = (ChangefeedError, OSError)


class NotThereError(Exception):
    """The address names something that does not exist."""


# The overview.


def overview(pipelines: Sequence[dict[str, Any]], now: datetime) -> dict[str, Any]:
    """All pipelines, each as `at_a_glance` returns it."""
    states = sorted({one["state"] for one in pipelines})
    return {
        "at": tso.iso(now),
        "pipelines": list(pipelines),
        "states": {state: sum(one["state"] == state for one in pipelines) for state in states},
    }


def at_a_glance(pipeline: FoundPipeline, reader: PipelineReader | None, now: datetime) -> dict[str, Any]:
    """One pipeline at a glance; one that cannot be read has the state `unreadable` and its error."""
    head = {
        "id": pipeline.id,
        "name": pipeline.name,
        "folder": None if pipeline.folder is None else redact(pipeline.folder),
        "definition": None if pipeline.path is None else str(pipeline.path),
    }
    if reader is None:
        return {**head, "state": "unreadable", "error": redact(pipeline.error)}
    try:
        return {**head, **_glance(reader.glance(), now)}
    except _ERRORS as error:
        return {**head, "state": "unreadable", "error": redact(str(error))}


_OF_TABLES = frozenset({
    "cut", "commit_ts", "held_by", "held_since", "held_tables", "pending", "dead_letters", "records", "repeated", "written",
    "tables_written", "gone",
})  # fmt: skip
"""Fields that an event pipeline and its steps do not have."""


def _glance(glance: Glance, now: datetime) -> dict[str, Any]:
    """The fields of a pipeline; those of `_OF_TABLES` only if it writes tables."""
    shown = _all_fields(glance, now)
    if glance.kind == "tables":
        return shown
    lag = event_lag_dict(glance.lag, now)
    counts = {name: shown["counts"][name] for name in ("rows", "schema_changes") if shown["counts"]}
    position = ", ".join(offset_text(int(one["next_offset"]), binlog=glance.binlog) for one in _partitions(glance))
    return {**_without(shown), "lag": lag, "counts": counts, "position": position or None}


def _without(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if name not in _OF_TABLES}


def _all_fields(glance: Glance, now: datetime) -> dict[str, Any]:
    newest, beat = glance.newest, glance.beat
    state = newest.state if newest else None
    barrier, mark = (state.barrier, state.mark) if state else (None, None)
    return {
        "kind": glance.kind,
        "state": _state(glance, now),
        "error": None if beat is None or beat.error is None else redact(beat.error.reason),
        "error_at": None if beat is None or beat.error is None else tso.iso(beat.error.since),
        "is_error_over": beat is not None and beat.is_alive(now) and beat.stage != RETRYING,
        "run": None if beat is None else run_text(beat, now),
        "stage": None if beat is None else beat.stage,
        "source_down": beat and beat.source_down and redact(failure_text(beat.source_down)),
        "epoch": newest.epoch if newest else 0,
        "step": newest.step if newest else 0,
        "step_at": newest.at and tso.iso(newest.at) if newest else None,
        "unfinished": newest.unfinished if newest else False,
        "cut": cut_text(barrier, mark, binlog=glance.binlog),
        "commit_ts": None if barrier is None else str(barrier),
        "lag": glance.lag.to_dict(now),
        "lag_text": lag_text(glance.lag, now),
        "held_by": [{**holder.to_dict(), "commit_ts": _text(holder.commit_ts)} for holder in glance.held_by],
        "held_since": glance.held_since and tso.iso(glance.held_since),
        "tables": newest.count if newest else 0,
        "held_tables": sum(not hold.released for hold in state.held.values()) if state else 0,
        "pending": state.counts.pending if state else 0,
        "dead_letters": glance.waiting,
        "counts": asdict(state.counts) if state else {},
    }


def _state(glance: Glance, now: datetime) -> str:
    """`running`, `waiting` (its source does not answer), `stopped`, `failed`, `killed`, `never run`, `not known`."""
    beat = glance.beat
    if beat is None:
        return "not known" if glance.newest else "never run"
    if beat.is_alive(now):
        return "waiting" if beat.source_down else "running"
    if not beat.ended:
        return "killed"
    return "stopped" if beat.stage == STOPPED or beat.error is None else "failed"


# One pipeline.

_NO_STEPS: dict[str, Any] = {"partitions": [], "phases": [], "steps": [], "older": None}


def unreadable(pipeline: FoundPipeline, now: datetime) -> dict[str, Any]:
    """A pipeline whose definition cannot be read."""
    return {"at": tso.iso(now), **at_a_glance(pipeline, None, now), **_NO_STEPS}


def pipeline(reader: PipelineReader, now: datetime, count: int = STEPS, before: int | None = None) -> dict[str, Any]:
    """One pipeline: its run, its cut and what holds it, partitions, and steps before one."""
    shown = at_a_glance(reader.pipeline, reader, now)
    if shown["state"] == "unreadable":
        return {"at": tso.iso(now), **shown, **_NO_STEPS}
    glance = reader.glance()
    rows = reader.steps(count, before)
    steps = [step(row, glance.beat, binlog=glance.binlog, numbered=reader.numbered_versions) for row in rows]
    return {
        "at": tso.iso(now),
        **shown,
        **({"pending_by_table": reader.pending_by_table()} if glance.kind == "tables" else {}),
        "partitions": list(_partitions(glance)),
        "phases": _phases(glance.beat),
        "steps": steps if glance.kind == "tables" else [_without(one) for one in steps],
        "older": rows[-1].step if rows and rows[-1].step > 1 and len(rows) == count else None,
    }


def step(row: StepRow, beat: RunNow | None, *, binlog: bool, numbered: bool) -> dict[str, Any]:
    """One step: its cut, its time, and what it has done; what is no longer known is None.

    The times of its phases are in the heartbeat, if it is one of the newest steps of the newest run.
    """
    seconds = None if row.earlier is None else (row.at - row.earlier[0]).total_seconds()
    done: dict[str, int | None] = dict.fromkeys(("records", "rows", "applied", "repeated", "schema_changes"))
    if row.earlier is not None:
        done = {name: getattr(row.counts, name) - getattr(row.earlier[1], name) for name in done}
    time = _commit_time(row, binlog=binlog)
    return {
        "step": row.step,
        "epoch": row.epoch,
        "at": tso.iso(row.at),
        "seconds": None if seconds is None else round(seconds, 3),
        "commit_ts": _text(row.commit_ts),
        "cut": cut_text(row.commit_ts, row.mark, binlog=binlog),
        "lag_seconds": None if time is None else round(max((row.at - time).total_seconds(), 0.0), 3),
        **done,
        "rows_per_second": round(done["applied"] / seconds, 1) if seconds and done["applied"] is not None else None,
        "pending": row.counts.pending,
        "phases": beat.step_phases.get(row.step) if beat is not None and beat.epoch == row.epoch else None,
        "tables": row.tables,
        "written": None if row.written is None else _versions(row.written, numbered=numbered),
        "tables_written": None if row.written is None else len(row.written),
        "gone": list(row.gone[:TABLES]),
    }


def _versions(written: Mapping[str, int | None], *, numbered: bool) -> dict[str, int | str | None]:
    """The first tables that a step has written, with their versions."""
    return {name: version_in_json(version, numbered=numbered) for name, version in sorted(written.items())[:TABLES]}


def _commit_time(row: StepRow, *, binlog: bool) -> datetime | None:
    """The time of the newest commit in a step's cut."""
    if binlog:
        return None if row.time is None else _EPOCH + timedelta(milliseconds=row.time)
    return None if row.commit_ts is None else tso.time_of(row.commit_ts)


def _partitions(glance: Glance) -> Iterable[dict[str, Any]]:
    state = glance.newest.state if glance.newest else None
    if state is None:
        return
    left = glance.beat.behind if glance.beat else {}
    holders = {holder.name for holder in glance.held_by if holder.kind == "partition"}
    for topic, offsets in sorted(state.positions.items()):
        for partition, offset in sorted(offsets.items()):
            resolved = state.resolved.get(topic, {}).get(partition)
            next_offset = offset_in_json(offset, binlog=glance.binlog)
            yield {
                "topic": topic,
                "partition": partition,
                "next_offset": next_offset,
                "place": offset_text(offset, binlog=True) if isinstance(next_offset, str) else None,
                "left": left.get(topic, {}).get(partition),
                "resolved": None if resolved is None else cut_text(resolved, binlog=glance.binlog),
                "holds": f"{topic}:{partition}" in holders,
            }


def _phases(beat: RunNow | None) -> list[dict[str, Any]]:
    if beat is None:
        return []
    whole = sum(beat.phases.values()) or 1.0
    return [
        {"phase": name, "seconds": round(seconds, 3), "share": round(seconds / whole, 4)}
        for name, seconds in beat.phases.items()
    ]


# Tables.


def tables(reader: PipelineReader, page: int = 1, search: str = "") -> dict[str, Any]:
    """The tables of the newest cut, page by page; `search` is a part of their names."""
    state = reader.state()
    names = sorted(name for name in state.tables if search.lower() in name.lower())
    shown, pages = _paged(names, page, TABLES)
    return {
        "tables": [_table(reader, state, name) for name in shown],
        "uncaptured": sorted(state.uncaptured) if page == 1 and not search else [],
        "count": len(names),
        "page": page,
        "pages": pages,
        "search": search,
    }


def table(reader: PipelineReader, name: str) -> dict[str, Any]:
    """One table: its columns and keys, what it waits for, and its older definitions.

    Raises:
        NotThereError: there is no such table.
    """
    state = reader.state()
    current = state.tables.get(name)
    if current is None:
        raise NotThereError(f"The newest cut has no table {name}.")
    definition = current.table
    history = reader.definitions(name)
    return {
        **_table(reader, state, name),
        "columns": [_column(one) for one in definition.columns],
        "virtual": [_column(one.column) for one in definition.virtual if not one.excluded],
        "excluded": [_column(one.column) for one in definition.virtual if one.excluded],
        "keys": list(definition.keys),
        "uniques": [{"name": one.name, "columns": list(one.columns)} for one in definition.uniques],
        "indexes": [{"name": one.name, "columns": list(one.columns)} for one in definition.indexes],
        "charset": definition.charset,
        "gaps": list(current.gaps),
        "history": list(_history(history)),
        "schema_changes": [
            {"commit_ts": str(last.commit_ts), "texts": list(last.texts)}
            for place, last in state.changed.items()
            if place == name
        ],
        "dead_letters": sum(
            one.replayed is None and one.table is not None and full_name(str(one.database), one.table) == name
            for one in reader.letters()
        ),
    }


def _table(reader: PipelineReader, state: State, name: str) -> dict[str, Any]:
    current, hold = state.tables[name], state.held.get(name)
    held = hold is not None and not hold.released
    why = None if not held or hold is None else "its topic has not caught up" if hold.late else "in quarantine"
    return {
        "name": name,
        "path": current.path,
        "version": version_in_json(current.version, numbered=reader.numbered_versions),
        "written_in_step": current.written.step if current.written else None,
        "column_count": len(current.table.columns),
        "keys": list(current.table.keys),
        "held": held,
        "held_because": why,
        "held_after": None if not held or hold is None else _text(hold.after),
        "declared": current.declared,
        "empty": current.empty,
    }


def _column(column: Any) -> dict[str, Any]:
    nullable = {True: "yes", False: "no", None: None}[column.nullable]
    return {
        "name": column.name,
        "type": str(column.type),
        "nullable": nullable,
        "key": bool(column.key),
        "default": column.default,
        "expression": column.expression,
    }


def _history(definitions: Sequence[tuple[int, datetime, Table]]) -> Iterable[dict[str, Any]]:
    """The differences between a table's definitions, newest first; the oldest one has none."""
    for number, (first, at, current) in enumerate(definitions):
        older = definitions[number + 1][2] if number + 1 < len(definitions) else None
        yield {
            "step": first,
            "at": tso.iso(at),
            "columns": len(current.columns),
            "changes": None if older is None else list(_changes(older, current)),
        }


def _changes(older: Table, current: Table) -> Iterable[str]:
    before = {column.name: column for column in older.columns}
    after = {column.name: column for column in current.columns}
    yield from (f"column {name} {one.type} added" for name, one in after.items() if name not in before)
    yield from (f"column {name} {one.type} removed" for name, one in before.items() if name not in after)
    for name, column in after.items():
        if name in before and before[name] != column:
            was, now = before[name], column
            yield (
                f"column {name}: {was.type} → {now.type}"
                if was.type != now.type
                else f"column {name}: properties changed"
            )
    if older.keys != current.keys:
        yield f"key: ({', '.join(older.keys)}) → ({', '.join(current.keys)})"
    if older.full_name != current.full_name:
        yield f"renamed from {older.full_name}"


# Dead letters.


def letters(reader: PipelineReader, page: int = 1, *, replayed: bool = False) -> dict[str, Any]:
    """The dead letters, page by page, without bytes; with `replayed`, also those that have been replayed."""
    chosen = [one for one in reader.letters() if replayed or one.replayed is None]
    shown, pages = _paged(chosen, page, LETTERS)
    return {
        "letters": [_letter(one) for one in shown],
        "count": len(chosen),
        "page": page,
        "pages": pages,
        "replayed": replayed,
    }


def letter(reader: PipelineReader, position: str) -> tuple[dict[str, Any], StoredLetter]:
    """One dead letter, and its bytes.

    Raises:
        NotThereError: there is none at this position.
    """
    summary = next((one for one in reader.letters() if _position(one) == position), None)
    stored = None if summary is None else reader.letter(summary)
    if summary is None or stored is None:
        raise NotThereError(f"There is no dead letter at {position}.")
    more = {
        "schema_id": stored.schema_id,
        "sha256": stored.sha256,
        "key": stored.key,
        "value": stored.value,
        "headers": [[name, value] for name, value in stored.headers],
    }
    return {**_letter(summary), **msgspec.to_builtins(more)}, stored


def _letter(one: LetterSummary) -> dict[str, Any]:
    return {
        "id": one.sha256[:12],
        "position": _position(one),
        "reason": one.reason,
        "error": one.error,
        "table": None if one.table is None else full_name(str(one.database), one.table),
        "protocol": one.protocol,
        "byte": one.byte,
        "at": tso.iso(one.at),
        "replayed": one.replayed and tso.iso(one.replayed),
    }


def _position(one: LetterSummary) -> str:
    return str(Place(*one.position))


# The definition.


def definition(pipeline: FoundPipeline) -> dict[str, Any]:
    """The definition as it was written, with `***` in place of every secret.

    Raises:
        NotThereError: only the pipeline's folder is known.
    """
    if pipeline.path is None:
        raise NotThereError("The page was given this pipeline's folder, not its definition.")
    if pipeline.definition is None:
        return {"path": str(pipeline.path), "error": redact(pipeline.error), "text": None, "definition": None}
    try:
        written, _ = yaml_file.read(pipeline.path)
    except ConfigError as error:
        return {"path": str(pipeline.path), "error": redact(str(error)), "text": None, "definition": None}
    shown = _redacted(written, "")
    text = yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)
    return {"path": str(pipeline.path), "error": None, "text": text, "definition": shown}


def _redacted(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        inner = f"{name}." if is_secret(name) else ""
        return {str(key): _redacted(item, f"{inner}{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_redacted(item, name) for item in value]
    if is_secret(name) and value is not None and not isinstance(value, bool):
        return HIDDEN
    return redact(value) if isinstance(value, str) else value


# Shared.


def _paged(values: Sequence[Any], page: int, size: int) -> tuple[Sequence[Any], int]:
    """The entries of a page, from 1, and the number of pages."""
    pages = max(1, -(-len(values) // size))
    if not 1 <= page <= pages:
        raise NotThereError(f"There is no page {page}; there are {pages}.")
    return values[(page - 1) * size : page * size], pages


def _text(commit_ts: int | None) -> str | None:
    return None if commit_ts is None else str(commit_ts)
