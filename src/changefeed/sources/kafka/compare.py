"""A token beside the topics that the brokers have now: what is gone, and what became of it.

    of a topic in the token                                  then
    it is not in the definition now                          TAKEN_OUT
    the brokers do not have it                               DELETED
    it has another id, or fewer partitions                   RECREATED
    brokers without ids: an offset lies behind its end       RECREATED
    the id is the same, an offset lies behind its end        error: the brokers have lost records
    an offset lies before the first record                   error: records expired before they were read

Without ids a topic that was created again and has as many records as before cannot be told from the old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from changefeed.errors import ChangefeedError, ConfigError, SourceError
from changefeed.sources.kafka.token import Token
from changefeed.sources.kafka.topics import Topic

TAKEN_OUT, DELETED, RECREATED = "taken out", "deleted", "created again"
_SNAPSHOT = "Start a new pipeline from a snapshot"
_CONTINUE = "set source.removed-topics to `continue`"


def removed(token: Token, there: Mapping[str, Topic], wanted: Iterable[str]) -> dict[str, str]:
    """Topic of the token -> what became of it; those that are as they were are left out."""
    named = set(wanted)
    found: dict[str, str] = {}
    for name, offsets in token.offsets.items():
        now, known = there.get(name), token.ids.get(name)
        if name not in named:
            found[name] = TAKEN_OUT
        elif now is None:
            found[name] = DELETED
        elif (known and now.id and known != now.id) or not {int(p) for p in offsets} <= now.partitions:
            found[name] = RECREATED
    return found


def moved(token: Token, ends: Mapping[tuple[str, int], tuple[int, int]]) -> dict[str, str]:
    """Topics of the token whose records end before its offset, and that have no id to tell them by: created again.

    Raises:
        SourceError: records that come next have expired, or were lost by the brokers.
    """
    found: dict[str, str] = {}
    for (topic, partition), (first, end) in sorted(ends.items()):
        offset = token.offsets[topic][str(partition)]
        if offset > end and topic in token.ids:
            raise SourceError(
                f"the ledger goes on at offset {offset} of {topic}:{partition}, which ends at {end}: the brokers have lost "
                f"records that were read from them. {_SNAPSHOT}"
            )
        if offset > end:
            found[topic] = RECREATED
        if 0 <= offset < first:
            raise SourceError(
                f"Kafka no longer has the records {offset} to {first - 1} of {topic}:{partition}, which come next: they "
                f"expired before they were read. {_SNAPSHOT}"
            )
    return found


def refusal(gone: Mapping[str, str], *, goes_on: bool = False) -> ChangefeedError:
    """The error that stops a run for these topics; with `goes_on`, one after which the next try leaves them out."""
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
        f"that were read: {_SNAPSHOT[0].lower()}{_SNAPSHOT[1:]}, or {_CONTINUE} to read them from their first record"
    )


def note(topic: str, why: str, token: Token) -> str:
    """What a run says when it goes on without a topic, or with the new one."""
    places = ", ".join(f"{topic}:{p}:{offset}" for p, offset in sorted(token.offsets[topic].items()) if offset >= 0)
    then = "it is read from its first record" if why == RECREATED else "the run goes on without it"
    return f"topic {topic} was {why}: {then}. What it had from {places or 'its start'} on was not read"
