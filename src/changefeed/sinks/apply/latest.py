"""Reduces the changes of one task to the last one of each key, in Arrow; `stages.latest` does the same in Spark SQL.

Changes have the columns of `stages.changes`, and the order that the rules of `stages.latest` give them.

Rule 1. A key's last change wins. A partial image sets the columns that it carries and takes the others from earlier changes,
back to the last delete.
Rule 2. The result is in the order of changes, in whatever order they are read: tasks that read the same changes give them the
same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.sinks.apply.keys import codes

_Numbers = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_FIRST = np.iinfo(np.int64).min  # where Spark sorts NULL
READING = ("_ts", "_time", "_op")
TEXTS = pa.map_(pa.string(), pa.string())


def latest(
    changes: pa.Table, names: Sequence[str], keys: Sequence[int], *, partial: bool, final_states: bool = False
) -> pa.Table:
    """Returns one row per key, with the columns of `changes`.

    Args:
        changes: changes of one table with a key.
        names: names of the table's columns, in order.
        keys: places of the key's columns.
        partial: whether changes may carry only some columns. Then `_has` is set in every row of the result; columns
            without a flag keep their values in the sink's table.
        final_states: see Rule 4 of `stages.latest`.
    """
    changes = changes.combine_chunks()
    if not len(changes):
        return changes
    key, count = codes([changes.column(f"c{i}") for i in keys])
    order = _order(changes, key, final_states=final_states)
    key = key[order]
    place = np.zeros(count, np.int64)
    place[key] = np.arange(len(order))  # of a number that occurs twice, the last one stays
    if not partial:
        last = order[np.sort(place)]
        return changes if _rising_by_one(last, len(changes)) else changes.take(pa.array(last))
    ranked = np.argsort(place)  # keys in the order of their last change
    return _merged(changes, names, keys, order, key, place[ranked], ranked)


def of_last_reading(changes: pa.Table) -> pa.ChunkedArray:
    """Returns which changes of a table without a key count, so that a row that a snapshot has read twice counts once.

    Args:
        changes: the changes, with the columns of `READING`.

    Source:
        `stages.latest.last_reading`
    """
    read = pc.equal(changes.column("_op"), "read")
    if not pc.any(read).as_py():
        return pa.chunked_array([pa.repeat(True, len(changes))])
    rows = pa.table({"ts": changes.column("_ts"), "time": changes.column("_time")})
    rows = rows.append_column(
        "whole", pc.equal(pc.floor_temporal(rows.column("time"), unit="second"), rows.column("time"))
    )
    grouped = rows.filter(read).group_by("ts", use_threads=False).aggregate([("whole", "min"), ("time", "max")])
    code, count = codes([pa.chunked_array([*rows.column("ts").chunks, *grouped.column("ts").chunks])])
    last, whole = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    groups = code[len(rows) :]
    last[groups] = _integers(grouped.column("time_max"))
    whole[groups] = grouped.column("whole_min").fill_null(False).to_numpy(zero_copy_only=False)
    mine = code[: len(rows)]
    passed = _mask(read) & whole[mine] & (_integers(rows.column("time")) != last[mine])
    return pa.chunked_array([pa.array(~passed)])


def _order(changes: pa.Table, key: _Numbers, *, final_states: bool) -> _Numbers:
    """Returns the row numbers in the order of changes; `key` has the number of each row's key."""
    dated = _mask(pc.is_valid(changes.column("_ts")))
    changed = _mask(pc.fill_null(pc.not_equal(changes.column("_op"), "read"), True))
    by_time = [_integers(changes.column("_ts")), np.where(dated, changed.astype(np.int64), -1)]
    order = _sorted(by_time)
    same_time = _equal_neighbours(by_time, order)
    if not same_time.any():
        return order
    topic = pc.dictionary_encode(changes.column("_topic").combine_chunks())
    ranks = np.argsort(np.argsort(np.array([str(t).encode() for t in topic.dictionary.to_pylist()], dtype=object)))
    half = _integers(changes.column("_half"))
    partition = [
        ranks[topic.indices.to_numpy()] if len(ranks) else half,
        _integers(changes.column("_partition")),
    ]
    place = [*(_integers(changes.column(name)) for name in ("_offset", "_index")), half]
    if _has_keys_twice(key, order, same_time):
        together, place = [key, *by_time, *partition], list(place)
        if final_states:
            moved = _mask(pc.fill_null(pc.equal(changes.column("_op"), "update"), False))
            place.insert(0, np.where(dated & (half == 0) & (moved | _repeats(together, half)), 0, 1))
        by_time.append(np.where(dated, _last_of_each(together, place, half), -1))
    return _sorted([*by_time, *partition, *place])


def _has_keys_twice(key: _Numbers, order: _Numbers, same_time: _Mask) -> bool:
    """Whether two rows have the same key and time; `same_time`: a row of `order`, but the last, has the time of the next one."""
    time = np.concatenate([[0], np.cumsum(~same_time)])
    both = time * (int(key.max()) + 1) + key[order]
    return len(np.unique(both)) < len(both)


def _repeats(together: Sequence[_Numbers], half: _Numbers) -> _Mask:
    """Whether the group of each row, of those equal in `together`, has two rows with the same half."""
    columns = [*together, half]
    order = np.lexsort(columns[::-1])
    twice = np.concatenate([_equal_neighbours(columns, order), [False]])
    group = _groups(together, order)
    repeated = np.zeros(int(group[-1]) + 1, np.bool_)
    repeated[group[twice]] = True
    repeats = np.empty(len(order), np.bool_)
    repeats[order] = repeated[group]
    return repeats


def _last_of_each(together: Sequence[_Numbers], place: Sequence[_Numbers], value: _Numbers) -> _Numbers:
    """For each row, the value of the last row, by place, of those that are equal to it in `together`."""
    order = np.lexsort([*together, *place][::-1])
    group = _groups(together, order)
    last = np.empty(int(group[-1]) + 1, np.int64)
    last[group] = value[order]  # of a number that occurs twice, the last one stays
    result = np.empty(len(order), np.int64)
    result[order] = last[group]
    return result


def _groups(columns: Sequence[_Numbers], order: _Numbers) -> _Numbers:
    """The number of the group of each row of `order`, in which rows that are equal in the columns are neighbours."""
    return np.concatenate([[0], np.cumsum(~_equal_neighbours(columns, order))])


def _sorted(columns: Sequence[_Numbers]) -> _Numbers:
    """Returns the row numbers in the order of the columns, the first of which is the most significant."""
    count = len(columns[0])
    columns = [c for c in columns if (c != c[0]).any()]
    if not columns or _is_sorted(columns):
        return np.arange(count)
    return np.lexsort(columns[::-1])


def _equal_neighbours(columns: Sequence[_Numbers], order: _Numbers) -> _Mask:
    """For each row of `order` but the last, whether the next one is equal to it in all columns."""
    equal = np.ones(len(order) - 1, np.bool_)
    for column in columns:
        ordered = column[order]
        equal &= ordered[1:] == ordered[:-1]
    return equal


def _is_sorted(columns: list[_Numbers]) -> bool:
    equal = np.ones(len(columns[0]) - 1, np.bool_)
    for column in columns:
        if (equal & (column[1:] < column[:-1])).any():
            return False
        equal &= column[1:] == column[:-1]
    return True


def _merged(
    changes: pa.Table,
    names: Sequence[str],
    keys: Sequence[int],
    order: _Numbers,
    key: _Numbers,
    last: _Numbers,
    ranked: _Numbers,
) -> pa.Table:
    """Merges partial changes: for each column, the last value since the last delete. `last`: each key's last change."""
    deleted = _mask(changes.column("_deleted"))[order]
    cut = np.full(len(ranked), -1, np.int64)
    places = np.arange(len(order))
    cut[key[deleted]] = places[deleted]
    counts = ~deleted & (places > cut[key])
    has, irregular_texts = carried(changes, len(names))[order], texts(changes)
    columns: dict[str, Any] = {}
    known = np.zeros((len(ranked), len(names)), np.bool_)
    irregular: dict[int, dict[str, str]] = {}
    for i, name in enumerate(names):
        if i in keys:
            columns[f"c{i}"], known[:, i] = changes.column(f"c{i}").take(pa.array(order[last])), True
            continue
        mine = counts & has[:, i]
        source = np.full(len(ranked), -1, np.int64)
        source[key[mine]] = order[mine]
        source = source[ranked]
        columns[f"c{i}"] = changes.column(f"c{i}").take(pa.array(source, mask=source < 0))
        known[:, i] = (source >= 0) | (cut[ranked] >= 0)
        for row in np.flatnonzero(np.isin(source, list(irregular_texts))).tolist() if irregular_texts else ():
            if name in irregular_texts[source[row]]:
                irregular.setdefault(row, {})[name] = irregular_texts[source[row]][name]
    columns |= {"_has": bits(known), "_irregular": maps(irregular, len(ranked))}
    others = changes.select([n for n in changes.column_names if n not in columns]).take(pa.array(order[last]))
    return pa.table([columns.get(n, others.column(n) if n in others.column_names else None) for n in changes.column_names],
                    schema=changes.schema)  # fmt: skip


def carried(changes: pa.Table, count: int) -> npt.NDArray[np.bool_]:
    """Returns a matrix, row by column: whether the change carries the column."""
    column = changes.column("_has")
    there = _mask(pc.is_valid(column))
    has = np.ones((len(changes), count), np.bool_)
    if there.any():
        flat = pc.list_flatten(column.filter(pa.array(there))).to_numpy(zero_copy_only=False)
        has[there] = flat.astype(np.bool_).reshape(-1, count)
    return has


def bits(has: npt.NDArray[np.bool_]) -> pa.Array:
    """Converts such a matrix to the column `_has`."""
    rows, columns = has.shape
    offsets = pa.array(np.arange(rows + 1) * columns, pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(has.reshape(-1)))


def texts(rows: pa.Table, name: str = "_irregular") -> dict[int, dict[str, str]]:
    """Returns row -> column -> text, for rows with irregular texts."""
    column = rows.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], TEXTS)
    some = np.flatnonzero((np.diff(column.offsets.to_numpy()) > 0) & _mask(column.is_valid()))
    return dict(zip(some.tolist(), map(dict, column.take(pa.array(some)).to_pylist()), strict=True))


def maps(texts_by_row: Mapping[int, Mapping[str, str]], count: int) -> pa.Array:
    """Builds a map column of `count` rows from row -> column -> text; other rows get an empty map."""
    lengths = np.zeros(count + 1, np.int32)
    rows = sorted(texts_by_row)
    for row in rows:
        lengths[row + 1] = len(texts_by_row[row])
    pairs = [pair for row in rows for pair in texts_by_row[row].items()]
    return pa.MapArray.from_arrays(
        pa.array(np.cumsum(lengths, dtype=np.int32)),
        pa.array([k for k, _ in pairs], pa.string()),
        pa.array([v for _, v in pairs], pa.string()),
    )


def _integers(column: pa.ChunkedArray) -> _Numbers:
    whole: _Numbers = pc.fill_null(column.cast(pa.int64()), _FIRST).to_numpy()
    return whole


def _mask(column: pa.ChunkedArray | pa.Array) -> _Mask:
    mask: _Mask = column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    return mask.astype(np.bool_)


def _rising_by_one(rows: _Numbers, count: int) -> bool:
    return len(rows) == count and bool((rows == np.arange(count)).all())
