"""Compares the ledger's source offset with the topics that the brokers have now.

    of a topic in the source offset                          result
    it is not in the definition now                          TAKEN_OUT
    the brokers do not have it                               DELETED
    it has another id, or fewer partitions                   RECREATED
    brokers without ids: an offset lies behind its end       RECREATED
    the id is the same, an offset lies behind its end        error: the brokers have lost records
    an offset is before the first record                     error: records expired before they were read

Without ids a topic that was created again and has as many records as before cannot be distinguished from the old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from changefeed.errors import ChangefeedError, ConfigError, SourceError
from changefeed.sources.kafka.source_offset import Places, SourceOffset
from changefeed.sources.kafka.topics import Topic

TAKEN_OUT, DELETED, RECREATED = "taken out", "deleted", "created again"
_SNAPSHOT = "Start a new pipeline from a snapshot"
_CONTINUE = "set source.removed-topics to `continue`"


def removed(source_offset: SourceOffset, there: Mapping[str, Topic], wanted: Iterable[str]) -> dict[str, str]:
    """Topic of the source offset -> what happened to it; unchanged topics are left out."""
    named = set(wanted)
    gone: dict[str, str] = {}
    for name, offsets in source_offset.offsets.items():
        now, known = there.get(name), source_offset.ids.get(name)
        if name not in named:
            gone[name] = TAKEN_OUT
        elif now is None:
            gone[name] = DELETED
        elif (known and now.id and known != now.id) or not {int(p) for p in offsets} <= now.partitions:
            gone[name] = RECREATED
    return gone


def moved(source_offset: SourceOffset, firsts: Places, ends: Places) -> dict[str, str]:
    """Topics without id whose records end before the source offset: created again.

    Args:
        source_offset: has offsets of all partitions in `ends`.
        firsts, ends: offset of the first record of partitions, and offset after their last one.

    Raises:
        SourceError: the records that come next have expired, or were lost by the brokers.
    """
    gone: dict[str, str] = {}
    for (topic, partition), end in sorted(ends.items()):
        first, offset = firsts[topic, partition], source_offset.offsets[topic][str(partition)]
        if offset > end and topic in source_offset.ids:
            raise SourceError(
                f"the ledger continues at offset {offset} of {topic}:{partition}, which ends at {end}: the brokers have lost "
                f"records that were read from them. {_SNAPSHOT}"
            )
        if offset > end:
            gone[topic] = RECREATED
        if 0 <= offset < first:
            raise SourceError(
                f"Kafka no longer has the records {offset} to {first - 1} of {topic}:{partition}, which come next: they "
                f"expired before they were read. {_SNAPSHOT}"
            )
    return gone


def refusal(gone: Mapping[str, str], *, goes_on: bool = False) -> ChangefeedError:
    """The error that stops a run because of these topics; with `goes_on`, the next retry leaves them out."""
    why = next(iter(gone.values()))
    names = ", ".join(sorted(name for name, reason in gone.items() if reason == why))
    if goes_on:
        return SourceError(f"removed while the run was reading ({why}): {names}", transient=True)
    if why == TAKEN_OUT:
        return ConfigError(
            f"source: topics that this pipeline has read are no longer named: {names}. Put them back, or {_CONTINUE} to go on "
            "without them"
        )
    if why == DELETED:
        return SourceError(
            f"topics that this pipeline reads were deleted, or are not visible to this user: {names}. {_SNAPSHOT}, or "
            f"{_CONTINUE} to go on without them"
        )
    return SourceError(
        f"topics that this pipeline reads were deleted and created again: {names}. Their records do not continue those "
        f"that were read. {_SNAPSHOT}, or {_CONTINUE} to read them from their first record"
    )


def note(topic: str, why: str, source_offset: SourceOffset) -> str:
    """The warning of a run that continues without a topic, or with the new one."""
    places = ", ".join(
        f"{topic}:{p}:{offset}" for p, offset in sorted(source_offset.offsets[topic].items()) if offset >= 0
    )
    then = "it is read from its first record" if why == RECREATED else "the run goes on without it"
    return f"topic {topic} was {why}: {then}. What it had from {places or 'its start'} on was not read"
