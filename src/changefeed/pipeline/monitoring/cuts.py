"""Cuts as people know them: a time, a GTID, a file of the binlog and a position in it; never a bare number of 13 digits."""

from __future__ import annotations

from changefeed.ticdc import tso

NO_CUT = "no cut yet"

_POSITION = 40  # bits of a position, in the commit_ts of a source that has positions instead of times


def cut_text(commit_ts: int | None, name: str | None = None, *, binlog: bool = False) -> str:
    """A cut for people, in a form that `--until` takes.

    Args:
        commit_ts: the cut's; None before the first.
        name: the upstream's name of the cut: a GTID, or a GTID set.
        binlog: whether the commit_ts is a place in the binlog: file number << 40 | position.
    """
    if commit_ts is None:
        return name or NO_CUT
    if binlog:
        place = f"binlog {commit_ts >> _POSITION:06d}:{commit_ts & (1 << _POSITION) - 1}"
        return f"{name} ({place})" if name else place
    if name:
        return name
    time = tso.time_of(commit_ts)
    return str(commit_ts) if time is None else f"{commit_ts} ({tso.iso(time)})"


def offset_text(offset: int, *, binlog: bool) -> str:
    """The offset of a partition for people: a number, or its place where the source reads a binlog itself.

    Args:
        offset: of Kafka, or a place in the binlog; no topic of Kafka has as many records as the first place is.
        binlog: as in `cut_text`.
    """
    return cut_text(offset, binlog=True) if binlog and offset >> _POSITION else str(offset)


def offset_in_json(offset: int, *, binlog: bool) -> int | str:
    """The offset of a partition in JSON: a place in the binlog is a string, because JavaScript and jq would round it.

    Args:
        offset, binlog: as in `offset_text`.
    """
    return str(offset) if binlog and offset >> _POSITION else offset


def commit_ts_of(place: str) -> int | None:
    """The commit_ts of a place in the binlog, `[binlog ][name.]000001:14624`; None if the text has another form."""
    file, _, position = place.removeprefix("binlog ").rpartition(":")
    number = file.rpartition(".")[2]
    if not (number.isascii() and number.isdigit() and position.isascii() and position.isdigit()):
        return None
    return None if int(position) >> _POSITION or int(number) >> 23 else int(number) << _POSITION | int(position)
