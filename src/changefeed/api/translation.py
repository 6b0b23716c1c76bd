"""Translates record logs from one protocol to another: `cf.transcode`, and the command `changefeed transcode`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from changefeed.api.codecs import Encoder, by_producer, read_options
from changefeed.api.logs import Count, Events, Paths, new_log, write_batches
from changefeed.model.batch import Decoded
from changefeed.model.event import DeadLetter
from changefeed.protocols import protocol
from changefeed.protocols.loss import PYTHON, Loss, loss
from changefeed.stages.definitions import definitions

OnDeadLetter = Callable[[DeadLetter], None]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Transcoded:
    """A record log that was written in another protocol.

    Attributes:
        path: the path of the log.
        records: number of records in the log.
        dead_letters: number of records, or messages in a record, that could not be decoded; they were left out.
        lost: the parts of events that the target cannot carry, by their keys in docs/reference/loss.md, even if no event
            of this log has them.
        needed: the keys among `lost` that a pipeline needs -> why; `allow_loss` had to name them.
    """

    path: Path
    records: int
    dead_letters: int
    lost: tuple[str, ...]
    needed: Mapping[str, str]


class Translation:
    """A translation from one protocol and its options to another.

    Attributes:
        loss: the parts of events that are lost.
    """

    def __init__(
        self, source: str, source_options: Mapping[str, Any], target: str, target_options: Mapping[str, Any]
    ) -> None:
        self._source, self._source_options = protocol(source), source_options
        self._target, self._target_options = protocol(target), target_options
        self._reads = read_options(source, source_options)
        self.loss: Loss = loss(self._source, self._reads, self._target, read_options(target, target_options))

    def run(self, paths: Paths, path: Path, on_dead_letter: OnDeadLetter, progress: Count | None = None) -> Transcoded:
        """Reads record logs and writes one in the other protocol.

        Args:
            paths: the logs to read.
            path: the log to write.
            on_dead_letter: called with each dead letter.
            progress: called with the number of records that have been read since the last call.

        Returns:
            The numbers of records and dead letters, and the keys that were lost.

        Raises:
            ConfigError: a path does not exist or is not a record log.
            SourceError: a log cannot be read.
            UnsupportedError: the target cannot carry one of the events; nothing is written.
        """
        events = Events(paths, self._source.name, self._source_options)
        encoder = Encoder(self._target.name, self._target_options)
        written = write_batches(self._translated(events, on_dead_letter, progress), path, encoder)
        return Transcoded(path, written.records, events.dead_letters, self.loss.keys, self.loss.needed)

    def _translated(self, events: Events, on_dead_letter: OnDeadLetter, progress: Count | None) -> Iterator[Decoded]:
        defined, before = definitions(self._source, self._reads, self._target.name), 0
        for decoded in events.batches():
            for letter in decoded.dead:
                on_dead_letter(letter)
            yield defined(decoded)
            if progress is not None:
                progress(events.records - before)
            before = events.records


def transcode(
    paths: Paths,
    path: str | Path,
    *,
    source: str,
    target: str,
    source_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
    allow_loss: Collection[str] = (),
    on_dead_letter: OnDeadLetter | None = None,
    overwrite: bool = False,
) -> Transcoded:
    """Reads records in one protocol and writes them in another.

    Args:
        paths: one record log to read, or several.
        path: the record log to write: `*.jsonl`, `*.jsonl.gz`, `*.jsonl.zst` or `*.parquet`.
        source: the protocol of the records.
        target: the protocol to write.
        source_options, target_options: options of the two protocols, by the producers' names.
        allow_loss: keys of event parts that may be lost although a pipeline needs them, such as `resolved`. The error
            that refuses a loss names them.
        on_dead_letter: called with each dead letter; by default they are logged as warnings.
        overwrite: whether to replace an existing log.

    Raises:
        ConfigError: a protocol or option is unknown, the log exists, or a loss that a pipeline would feel is not allowed.
        SourceError: a log cannot be read.
        UnsupportedError: the target cannot carry one of the events.
        SinkError: the file cannot be written.
    """
    way = Translation(
        source, by_producer(source, source_options or {}), target, by_producer(target, target_options or {})
    )
    way.loss.check(allow_loss, PYTHON)
    return way.run(paths, new_log(path, overwrite=overwrite), on_dead_letter or _warn)


def _warn(letter: DeadLetter) -> None:
    _log.warning("left out, as it could not be decoded: %s", letter.error)
