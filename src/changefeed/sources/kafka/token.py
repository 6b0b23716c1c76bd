"""The token of Kafka topics: the next offset of every partition, and the id of every topic.

    {"version": 1, "offsets": {"shop": {"0": 118204}}, "ids": {"shop": "Zp2-1yBiTnWmiVLZbYtVeA"}}

A topic that is deleted and created again has another id (KIP-516, Kafka 2.8). Brokers before that give none, and a token from
before ids were kept is the offsets alone, as Spark's connector has them: `{"shop": {"0": 118204}}`. Ids are then taken over
with the next batch. An offset of -2 stands for the first record that there is: of a partition that no batch has read from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

EARLIEST = -2
Offsets = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Token:
    """Where to go on, in which topics."""

    offsets: Offsets
    ids: dict[str, str] = field(default_factory=dict)

    def partitions(self) -> set[tuple[str, int]]:
        """Every (topic, partition)."""
        return {(topic, int(partition)) for topic, offsets in self.offsets.items() for partition in offsets}

    def without(self, topics: Iterable[str]) -> Token:
        """The token that lacks these topics."""
        left = set(topics)
        return Token(
            {topic: dict(offsets) for topic, offsets in self.offsets.items() if topic not in left},
            {topic: known for topic, known in self.ids.items() if topic not in left},
        )

    def extended(self, partitions: Mapping[str, Iterable[int]]) -> Token:
        """The token that also has these partitions, at their first record."""
        offsets = {topic: dict(known) for topic, known in self.offsets.items()}
        for topic, numbers in partitions.items():
            for number in numbers:
                offsets.setdefault(topic, {}).setdefault(str(number), EARLIEST)
        return Token(offsets, dict(self.ids))

    def text(self) -> str:
        """The token as the ledger keeps it."""
        return json.dumps({"version": 1, "offsets": self.offsets, "ids": self.ids})


def read(text: str) -> Token:
    """The token that a ledger has, or the offsets that Spark's connector logged for a batch."""
    said = json.loads(text)
    if isinstance(said.get("version"), int):
        return Token(said["offsets"], said["ids"])
    return Token(said)
