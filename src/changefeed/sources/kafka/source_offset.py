"""The source offset of Kafka topics: the next offset of every partition, and the id of every topic.

    {"version": 1, "offsets": {"shop": {"0": 118204}}, "ids": {"shop": "Zp2-1yBiTnWmiVLZbYtVeA"}}

A topic that is deleted and created again has another id (KIP-516, Kafka 2.8). Older brokers have no ids, and a source offset
from before ids were stored is the offsets alone: `{"shop": {"0": 118204}}`. Ids are then added
with the next batch. An offset of -2 stands for the first record: of a partition that no batch has read from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

EARLIEST, LATEST = -2, -1
Offsets = dict[str, dict[str, int]]
Place = tuple[str, int]  # topic and partition
Places = dict[Place, int]  # to its offset


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The next offset of every partition, and the topics' ids."""

    offsets: Offsets
    ids: dict[str, str] = field(default_factory=dict)

    def partitions(self) -> set[Place]:
        """Every (topic, partition)."""
        return {(topic, int(partition)) for topic, offsets in self.offsets.items() for partition in offsets}

    def without(self, topics: Iterable[str]) -> SourceOffset:
        """The source offset without these topics."""
        left = set(topics)
        return SourceOffset(
            {topic: dict(offsets) for topic, offsets in self.offsets.items() if topic not in left},
            {topic: known for topic, known in self.ids.items() if topic not in left},
        )

    def extended(self, partitions: Mapping[str, Iterable[int]]) -> SourceOffset:
        """The source offset with these partitions added, at their first record."""
        offsets = {topic: dict(known) for topic, known in self.offsets.items()}
        for topic, numbers in partitions.items():
            for number in numbers:
                offsets.setdefault(topic, {}).setdefault(str(number), EARLIEST)
        return SourceOffset(offsets, dict(self.ids))

    def text(self) -> str:
        """The source offset in the form that the ledger stores."""
        return json.dumps({"version": 1, "offsets": self.offsets, "ids": self.ids})


def by_topic(places: Mapping[Place, int]) -> Offsets:
    """(topic, partition) -> offset, as Spark's connector writes them."""
    offsets: Offsets = {}
    for (topic, partition), offset in places.items():
        offsets.setdefault(topic, {})[str(partition)] = offset
    return offsets


def by_place(offsets: Offsets) -> Places:
    """Offsets as Spark's connector writes them, as (topic, partition) -> offset."""
    return {(topic, int(partition)): offset for topic, of in offsets.items() for partition, offset in of.items()}


def read(text: str) -> SourceOffset:
    """Reads a source offset of the ledger, with ids or without."""
    document = json.loads(text)
    if isinstance(document.get("version"), int):
        return SourceOffset(document["offsets"], document["ids"])
    return SourceOffset(document)
