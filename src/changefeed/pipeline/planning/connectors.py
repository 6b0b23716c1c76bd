"""Tables of one name that two connectors send: positions in the binlogs of two servers have no order relative to each other.

    shard1   shard1.shop.orders        of two servers: changes of one are taken for repeated or older ones, and are lost
    shard2   shard2.shop.orders        of one server: the same rows twice, which is harmless

Rule. The prefix of a connector is the topic of its schema changes, or what comes before `.transaction`. No record shows whether
two connectors read one server, so that it is a warning, when the first of their topics is read.
"""

from __future__ import annotations

from collections.abc import Collection

_TRANSACTIONS = ".transaction"
_SHOWN = 5  # tables named in the warning


def sent_twice(topics: Collection[str], known: Collection[str]) -> list[str]:
    """Returns a sentence for each pair of connectors that send tables of the same names.

    Args:
        topics: the topics that have been read.
        known: those of them for which there has been a sentence before.
    """
    bodies: dict[str, set[str]] = {}
    prefixes = {*topics, *(topic.removesuffix(_TRANSACTIONS) for topic in topics if topic.endswith(_TRANSACTIONS))}
    for topic in topics:
        for prefix in _beginnings(topic):
            if prefix in prefixes and "." in topic[len(prefix) + 1 :]:
                bodies.setdefault(topic[len(prefix) + 1 :], set()).add(prefix)
    pairs: dict[tuple[str, ...], list[str]] = {}
    for body, senders in bodies.items():
        if len(senders) > 1 and any(f"{sender}.{body}" not in known for sender in senders):
            pairs.setdefault(tuple(sorted(senders)), []).append(body)
    return [_sentence(senders, sorted(tables)) for senders, tables in sorted(pairs.items())]


def _beginnings(topic: str) -> list[str]:
    return [topic[:place] for place, letter in enumerate(topic) if letter == "."]


def _sentence(prefixes: tuple[str, ...], tables: list[str]) -> str:
    more = f" and {len(tables) - _SHOWN:,} more" if len(tables) > _SHOWN else ""
    return (
        f"the connectors {' and '.join(prefixes)} both send {', '.join(tables[:_SHOWN])}{more}: if they read different servers, "
        "their positions have no order relative to each other, and changes of one are lost. Each server needs its own pipeline"
    )
