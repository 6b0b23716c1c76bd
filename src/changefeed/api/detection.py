"""Detection of the protocol of record logs: `detect` of `import changefeed` and on the command line."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from changefeed import record_log
from changefeed.api.logs import Paths, paths_of
from changefeed.errors import SourceError
from changefeed.pipeline.operations.detect import DetectedTopic
from changefeed.pipeline.operations.detect import detect as detect_batches

RECORDS = 20_000
_log = logging.getLogger(__name__)


def detect(paths: Paths, *, records: int = RECORDS, options: Mapping[str, Any] | None = None) -> list[DetectedTopic]:
    """Finds out which protocol the records of each topic are in.

    Up to 200 records of each topic are looked at, and decoded in every protocol that recognizes one of them.

    Args:
        paths: a record log or several.
        records: how many to read of each log.
        options: for the attempts to decode, by the producer's own names; each protocol takes those that it has.

    Returns:
        One `DetectedTopic` per topic: `best` is the likeliest protocol, or None; `fits` are all, the likeliest first, each with
        the reason (`why`), how many records look like it (`recognized`) and decode (`decoded`), and the first error.

    Raises:
        ConfigError: no protocol has an option of that name, or a path is not a record log.
        SourceError: a log cannot be read.
    """
    named = {name.replace("_", "-"): str(value) for name, value in (options or {}).items()}
    return detect_logs(paths_of(paths), named, records)


def detect_logs(logs: Iterable[Path], options: Mapping[str, str], records: int = RECORDS) -> list[DetectedTopic]:
    """The same for paths that are checked and options by the producer's names."""
    return detect_batches((batch for log in logs for batch in _first(log, records)), options)


def _first(log: Path, records: int) -> Iterator[pa.RecordBatch]:
    """The first records of a log; of a damaged one those before the damage, if there are any."""
    some = False
    try:
        for batch in record_log.read(log, stop=records):
            some = True
            yield batch
    except SourceError as error:
        if not some:
            raise
        _log.warning("%s; continuing with the records read so far", error)
