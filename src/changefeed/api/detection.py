"""Finds out which protocol record logs are in: `detect` of `import changefeed`, and the command `changefeed detect`."""

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

    Up to 200 records of each topic are decoded in every protocol that recognizes one of them.

    Args:
        paths: the path of one record log, or of several.
        records: maximum number of records to read from each log.
        options: protocol options to decode with, by the producer's names; each protocol uses those that it has.

    Returns:
        One `DetectedTopic` per topic. `best` is the most likely protocol, or None. `fits` has all candidates, the most likely
        first: why each was tried (`why`), how many records it recognizes and decodes (`recognized`, `decoded`), and
        the first error (`trouble`).

    Raises:
        ConfigError: no protocol has one of the options, or a path is not a record log.
        SourceError: a log cannot be read.
    """
    named = {name.replace("_", "-"): str(value) for name, value in (options or {}).items()}
    return detect_logs(paths_of(paths), named, records)


def detect_logs(logs: Iterable[Path], options: Mapping[str, str], records: int = RECORDS) -> list[DetectedTopic]:
    """Does the work of `detect`, for paths that have been checked and options by the producer's names."""
    return detect_batches((batch for log in logs for batch in _first(log, records)), options)


def _first(log: Path, records: int) -> Iterator[pa.RecordBatch]:
    """Reads the first records of a log; if it is damaged, the records before the damage."""
    some = False
    try:
        for batch in record_log.read(log, stop=records):
            some = True
            yield batch
    except SourceError as error:
        if not some:
            raise
        _log.warning("%s; continuing with the records read so far", error)
