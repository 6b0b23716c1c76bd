"""Positions of change events: topic, partition and offset of the record, and the index in the record."""

from __future__ import annotations

import re
from dataclasses import dataclass

from changefeed.errors import ConfigError

# `a:1:2:3` would be offset 2 of the topic `a`, or offset 3 of `a:1`. Kafka allows no such topic.
TOPIC_RULE = "a position is topic:partition:offset, so a topic has one character at least, and no colon"
_PLACE = re.compile(r"([^:]*):(\d{1,10}):(\d{1,19})(?::(\d{1,10}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Position:
    """The position of one change event. `str()` is `topic:partition:offset`, with `:index` if the record has several.

    Attributes:
        topic, partition, offset: those of the record, as in Kafka.
        index: number of the event in its record, from 0; None if the record has only one event.
        record: the record's row in the batch that was decoded, from 0: the order in which different partitions were read.
    """

    topic: str
    partition: int
    offset: int
    index: int | None = None
    record: int = 0

    def __str__(self) -> str:
        where = f"{self.topic}:{self.partition}:{self.offset}"
        return where if self.index is None else f"{where}:{self.index}"

    @classmethod
    def parse(cls, text: str, record: int = 0) -> Position:
        """Parses the text of a position: the inverse of `str`.

        Args:
            text: `topic:partition:offset`, with or without `:index`.
            record: the attribute `record` of the result, which the text does not contain.

        Raises:
            ConfigError: the text does not have this form.
        """
        match = _PLACE.fullmatch(text)
        if match is None:
            raise ConfigError(f"{text!r} is not a position: expected topic:partition:offset, with or without :index")
        topic, partition, offset, index = match.groups()
        return cls(topic, int(partition), int(offset), None if index is None else int(index), record)


Place = Position  # the name inside changefeed
