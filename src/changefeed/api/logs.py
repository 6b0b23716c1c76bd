"""Reads and writes record logs: `read` and `write` of `import changefeed`, `decode` and `encode` on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal

from changefeed import record_log
from changefeed.api.codecs import Decoder, Encoder
from changefeed.errors import ConfigError, ProtocolError
from changefeed.model import change
from changefeed.model.batch import Decoded
from changefeed.model.change import Event

Paths = str | Path | Iterable[str | Path]
OnError = Literal["yield", "raise"]
Count = Callable[[int], None]


class Events(Iterator[Event]):
    """Iterator over the events of record logs, in order. Holds one batch of records in memory, never a whole file.

    Attributes:
        records: number of records read so far.
        dead_letters: number of records, or messages in a record, that could not be decoded so far.
    """

    def __init__(self, paths: Paths, protocol: str, options: Mapping[str, Any], on_error: OnError = "yield") -> None:
        if on_error not in ("yield", "raise"):
            raise ConfigError(f'on_error must be "yield" or "raise", not {on_error!r}')
        self.records = 0
        self.dead_letters = 0
        self._paths = paths_of(paths)
        self._decoder = Decoder(protocol, options)
        self._raises = on_error == "raise"
        self._batches = self._decoded()
        self._events = chain.from_iterable(batch.events() for batch in self._batches)

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def batches(self) -> Iterator[Decoded]:
        """Iterates over the same events as Arrow columns, one `Decoded` per batch of records: much faster.

        Use either this or the iterator itself: each event is returned once.
        """
        return self._batches

    def _decoded(self) -> Iterator[Decoded]:
        for path in self._paths:
            for records in record_log.read(path):
                decoded = self._decoder(records)
                self.records += len(records)
                yield self._checked(decoded)
        rest = self._decoder.finish()
        if rest.dead:
            yield self._checked(rest)

    def _checked(self, decoded: Decoded) -> Decoded:
        self.dead_letters += len(decoded.dead)
        if decoded.dead and self._raises:
            letter = decoded.dead[0]
            raise ProtocolError(letter.error, reason=letter.reason, byte=letter.byte, index=letter.place.index)
        return decoded

    def __repr__(self) -> str:
        names = ", ".join(map(str, self._paths))
        return f"<changefeed events of {names} in {self._decoder.protocol}, {self.records:,} records so far>"


def read(paths: Paths, protocol: str, *, on_error: OnError = "yield", **options: Any) -> Events:
    """Reads record logs, one event at a time.

    Args:
        paths: one path or several: `*.jsonl`, `*.jsonl.gz`, `*.jsonl.zst`, `*.parquet`, or a folder of Parquet files.
        protocol: the protocol of the records; `list_protocols` returns the names, `detect` finds out which one it is.
        on_error: what to do with a record that cannot be decoded: `yield` a `DeadLetter` among the events, or `raise`.
        **options: options of the protocol, by the producer's names with `_` for `-`: `time_zone="Asia/Shanghai"`.

    Returns:
        An iterator of `RowChange`, `SchemaChange`, `Resolved`, `TransactionMark`, `Heartbeat` and `DeadLetter` in the order
        of the records. Its `records` and `dead_letters` count what has been read; its `batches()` returns columns instead.

    Raises:
        ConfigError: by this call, for an unknown protocol or option, or a path that is not a record log.
        SourceError: by the iterator, if a log is damaged, after the events before the damage.
        ProtocolError: by the iterator, with `on_error="raise"`.
    """
    return Events(paths, protocol, options, on_error)


@dataclass(frozen=True, slots=True)
class Written:
    """A record log that was written.

    Attributes:
        path: the path of the log.
        records: number of records in the log.
        dead_letters: number of dead letters among the events; they were left out.
    """

    path: Path
    records: int
    dead_letters: int


def write(
    events: Decoded | Iterable[Event | Decoded],
    path: str | Path,
    protocol: str,
    *,
    overwrite: bool = False,
    **options: Any,
) -> Written:
    """Writes a record log. The file appears under its name when it is complete, or not at all.

    Args:
        events: the events in order: those of `read`, events made by hand, or the result of a decoder.
        path: the log to write: `*.jsonl`, `*.jsonl.gz`, `*.jsonl.zst` or `*.parquet`.
        protocol: the protocol to write the events in.
        overwrite: whether to replace an existing log.
        **options: options of the protocol, by the producer's names with `_` for `-`.

    Raises:
        ConfigError: the protocol or an option is unknown, or the log exists.
        UnsupportedError: the protocol cannot carry one of the events.
        SchemaError: a value does not fit its column.
        SinkError: the file cannot be written.
    """
    log = new_log(path, overwrite=overwrite)
    return write_batches(_batches(events), log, Encoder(protocol, options))


def write_batches(batches: Iterable[Decoded], path: Path, encoder: Encoder, progress: Count | None = None) -> Written:
    """Encodes and writes batches of changes; calls `progress` with the number of records of each."""
    dead = 0
    with record_log.RecordLogWriter(path) as log:
        for changes in batches:
            records = encoder.encode(changes)
            log.write(records)
            dead += len(changes.dead)
            if progress is not None:
                progress(len(records))
        for last in encoder.last():
            log.write(last)
    return Written(path, log.records, dead)


def paths_of(paths: Paths) -> tuple[Path, ...]:
    """Returns the paths of record logs as a tuple.

    Raises:
        ConfigError: there is no path, or a path does not exist or is not a record log.
    """
    logs = (Path(paths),) if isinstance(paths, str | Path) else tuple(map(Path, paths))
    if not logs:
        raise ConfigError("no path: name at least one record log")
    for path in logs:
        if not path.exists():
            raise ConfigError(f"{path} does not exist")
        record_log.require_form(path)
    return logs


def new_log(path: str | Path, *, overwrite: bool) -> Path:
    """Returns the path of a log to write, after checking that it may be written.

    Raises:
        ConfigError: the log exists, and `overwrite` is not set.
    """
    log = Path(path)
    if log.is_file() and not overwrite:
        raise ConfigError(f"{log} exists; overwrite=True replaces it")
    return log


def _batches(events: Decoded | Iterable[Event | Decoded]) -> Iterator[Decoded]:
    if isinstance(events, Decoded):
        yield events
    elif isinstance(events, Events):
        yield from events.batches()
    else:
        for is_batch, some in groupby(events, key=lambda one: isinstance(one, Decoded)):
            if is_batch:
                yield from some  # type: ignore[misc]  # the key separates them, which mypy does not see
            else:
                yield from change.decoded(some)  # type: ignore[arg-type]
