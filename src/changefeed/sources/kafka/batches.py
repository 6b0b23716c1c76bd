"""Divides the records of partitions into batches.

    partition  start   end      limit 10 000  ->  stop
    shop:0     118204  243204                     127463
    shop:1      71300   81300                      72040

A batch takes of each partition a share in proportion to what is left of it, so that all come to their ends together.
"""

from __future__ import annotations

import json
from itertools import accumulate

from changefeed.errors import ConfigError, SourceError
from changefeed.sources import Backlog
from changefeed.sources.kafka.source_offset import EARLIEST, LATEST, Place, Places, by_place


def begin(starting: str, firsts: Places, ends: Places) -> Places:
    """The offset at which a new pipeline begins in each partition.

    Args:
        starting: `earliest`, `latest`, or JSON: topic -> partition -> offset, -2 for the first, -1 for the end.
        firsts, ends: offset of the first record of each partition, and offset after the last one.

    Raises:
        ConfigError: an offset is before the first record of its partition, or behind the last.
        SourceError: the JSON does not name exactly these partitions.
    """
    named = {"earliest": EARLIEST, "latest": LATEST}
    chosen = dict.fromkeys(firsts, named[starting]) if starting in named else by_place(json.loads(starting))
    if chosen.keys() != firsts.keys():
        raise SourceError(
            "source.starting-offsets does not name exactly the partitions of the topics, or partitions were just added: name "
            "all of them, or run again",
            transient=True,
        )
    places = {}
    for place, first in firsts.items():
        end = ends[place]
        places[place] = {EARLIEST: first, LATEST: end}.get(chosen[place], chosen[place])
        if not first <= places[place] <= end:
            raise ConfigError(
                f"source.starting-offsets: {place[0]}:{place[1]} has the records {first} to {end - 1}, and not {chosen[place]}. "
                "Correct the offset"
            )
    return places


def stops(starts: Places, ends: Places, limit: int, *, short_first: bool = False) -> Places:
    """The offset at which a batch stops in each partition: its end if everything fits, or after a share of `limit` records.

    Each share has at least one record, so a batch may have as many more than `limit` as there are partitions.

    Args:
        short_first: if not everything fits, read only the partitions with the fewest records left, to their ends.
    """
    if short_first and (some := _short(starts, ends, limit)):
        return starts | {place: ends[place] for place in some}
    left = {place: max(0, ends[place] - start) for place, start in starts.items()}
    total = max(limit, sum(left.values()))
    return {place: starts[place] + min(size, max(1, size * limit // total)) for place, size in left.items()}


def behind(starts: Places, ends: Places) -> Backlog:
    """The records between two offsets of each partition."""
    records = {place: max(0, ends[place] - start) for place, start in starts.items() if place in ends}
    return Backlog(sum(records.values()), records)


def _short(starts: Places, ends: Places, limit: int) -> list[Place]:
    """The partitions with the fewest records left, as many as fit into a batch; none if all fit, or these have no records."""
    sizes = sorted((max(0, ends[place] - start), place) for place, start in starts.items())
    totals = list(accumulate(size for size, _ in sizes))
    some = [place for (size, place), total in zip(sizes, totals, strict=True) if total <= limit]
    has_records = any(starts[place] < ends[place] for place in some)
    return some if has_records and totals[-1] > limit else []
