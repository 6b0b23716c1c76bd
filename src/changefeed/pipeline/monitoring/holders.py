"""The holders of the barrier: partitions, transactions and tables for which the cut waits.

    partition     it has no resolved event yet, or its last one is lower than that of all others; perhaps because the tables of
                  its topic are gone (`frontier/gone.py`)
    transaction   the source does not have all of its events
    table         it is held back by its dead letters, or until its topic has caught up; the other tables go on

The first two hold all tables. A pipeline of `consistency: key` has no barrier: of it only tables can be named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.events import AnyDefinition
from changefeed.pipeline.frontier.base import Partition
from changefeed.pipeline.frontier.gone import gone_from
from changefeed.pipeline.monitoring.cuts import cut_text
from changefeed.pipeline.state import LastStatement, State
from changefeed.protocols.base import Capabilities
from changefeed.sources import source

_NAMED = 5  # holders in a sentence


@dataclass(frozen=True, slots=True)
class Holder:
    """Something that the cut waits for.

    Attributes:
        kind: what it is, see above.
        name: `topic:partition`; the transaction's name; `database.table`.
        reason: why, for people: `no resolved event yet`.
        commit_ts: the partition's highest resolved commit_ts, or that up to which the table is applied; None if there is none.
        way_out: what makes the cut move again, if waiting does not, for people; None if that is not known.
    """

    kind: Literal["partition", "transaction", "table"]
    name: str
    reason: str
    commit_ts: int | None = None
    way_out: str | None = None

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})"

    def to_dict(self) -> dict[str, object]:
        """Returns one entry of `held_by` in JSON."""
        return asdict(self)


def holders(
    definition: Definition, capabilities: Capabilities, state: State, partitions: Iterable[Partition]
) -> tuple[Holder, ...]:
    """Returns the holders of a pipeline's cut, in the order: partitions, transaction, tables.

    Args:
        definition: the pipeline.
        capabilities: of its source.
        state: the newest state in the ledger.
        partitions: the source's, as far as they are known; those of the state are added.
    """
    whole = definition.pipeline.consistency == "transaction"
    marks = whole and capabilities.cuts == "marks"
    return holders_in(
        state, partitions, marks=marks, whole=whole, binlog=capabilities.binlog_places,
        without_topic=definition.source.without_topic,
    )  # fmt: skip


def holders_in(
    state: State,
    partitions: Iterable[Partition] = (),
    *,
    marks: bool,
    whole: bool = True,
    binlog: bool = False,
    without_topic: Callable[[str], str | None] = lambda topic: None,
) -> tuple[Holder, ...]:
    """Returns the holders of a cut, as `holders` does, for code that has no definition.

    Args:
        state: the newest state in the ledger.
        partitions: the source's; those of the state are added.
        marks: whether the cuts are those of resolved events.
        whole: whether all tables move together.
        binlog: whether the commit_ts are places in a binlog.
        without_topic: how the pipeline goes on without a topic, see `ChangesSection`.
    """
    holding: list[Holder] = []
    if marks:
        holding += _partitions(state, partitions, without_topic, binlog=binlog)
    if whole and state.incomplete is not None:
        holding.append(Holder("transaction", state.incomplete.name or "newest rows", str(state.incomplete)))
    for name, hold in sorted(state.held.items()):
        if not hold.released:
            why = "its topic has not caught up" if hold.late else "in quarantine, by its dead letters"
            holding.append(Holder("table", name, why, hold.after))
    return tuple(holding)


def held_by_of(definition: Definition, state: State) -> tuple[Holder, ...]:
    """Returns the holders of a pipeline's cut, without a question to its source."""
    opened = source(definition.source)
    # otherwise the source would be read to its end
    named = opened.partitions(state.source) if opened.offset_names_partitions and state.source is not None else set()
    return holders(definition, opened.capabilities, state, named)


def has_binlog(definition: AnyDefinition) -> bool:
    """Whether the commit_ts of a pipeline's source are places in a binlog: file number << 40 | position."""
    capabilities = source(definition.source).capabilities
    return capabilities.cuts == "transactions" or capabilities.binlog_places


def held_since(steps: Iterable[tuple[datetime, int | None, bool]], most: int) -> datetime | None:
    """Since when the newest cut has not moved although something waits; None if that is further back than `most` steps.

    Args:
        steps: of the ledger, newest first: when each was done, its barrier, and whether rows were pending or tables held then.
        most: how many are looked at.
    """
    since, newest = None, None
    for number, (at, barrier, waits) in enumerate(steps):
        newest = newest or (barrier, waits)
        if (barrier, waits) != newest:
            return since
        if number == most:
            return None
        since = at
    return since


def held_text(holding: Iterable[Holder], since: str | None = None) -> str:
    """A sentence for people: `held by orders:1 (no resolved event yet), orders:2 (…), since 14:02:11`; empty without holders."""
    holders = list(holding)
    if not holders:
        return ""
    more = f" and {len(holders) - _NAMED} more" if len(holders) > _NAMED else ""
    text = f"held by {', '.join(map(str, holders[:_NAMED]))}{more}" + (f", since {since}" if since else "")
    ways_out = dict.fromkeys(holder.way_out for holder in holders[:_NAMED] if holder.way_out)
    return text + "".join(f" (the way out: {way_out})" for way_out in ways_out)


def _partitions(
    state: State, partitions: Iterable[Partition], without_topic: Callable[[str], str | None], *, binlog: bool
) -> list[Holder]:
    """The partitions with the lowest resolved commit_ts, if anything waits for them."""
    marks = {at: state.resolved.get(at[0], {}).get(at[1]) for at in state.partitions().union(partitions)}
    newest = state.newest()
    if newest is None or (state.barrier is not None and newest <= state.barrier):
        return []  # what is pending is of tables that are held
    lowest = None if None in marks.values() else min(mark for mark in marks.values() if mark is not None)
    last = sorted(at for at, mark in marks.items() if mark == lowest)
    reason = "no resolved event yet" if lowest is None else f"no resolved event after {cut_text(lowest, binlog=binlog)}"
    if lowest is not None and len(last) == len(marks) > 1:
        return [Holder("partition", "every partition", reason, lowest)]
    gone = {topic: gone_from(state, topic) for topic in {topic for topic, _ in last}}
    return [
        Holder("partition", f"{topic}:{number}", f"{reason}; {_gone_text(gone[topic])}", lowest, without_topic(topic))
        if gone[topic]
        else Holder("partition", f"{topic}:{number}", reason, lowest)
        for topic, number in last
    ]


def _gone_text(gone: Mapping[str, LastStatement]) -> str:
    """Why a topic is without tables: `its table d.a was dropped at 12`."""
    ends = [f"{name} was {one.end} at {cut_text(one.commit_ts)}" for name, one in gone.items()]
    if len(ends) == 1:
        return f"its table {ends[0]}"
    more = f" and {len(ends) - _NAMED} more" if len(ends) > _NAMED else ""
    return f"its tables are gone: {', '.join(ends[-_NAMED:])}{more}"
