"""Reads the Delta table in which earlier versions of changefeed kept a pipeline's dead letters."""

from __future__ import annotations

import logging
import os
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from changefeed.sinks.delta import read
from changefeed.sinks.delta.native import delta_rs
from changefeed.sinks.delta.native.incomplete import take_back_newest
from changefeed.spark_runtime.files import is_local, read_by
from changefeed.storage.objects import ObjectFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changefeed.storage import Folder

_log = logging.getLogger(__name__)
_ALL = 'SELECT * FROM t ORDER BY topic, "partition", "offset", "index"'


def letters(path: str, session: SparkSession | None, folder: Folder | None) -> list[dict[str, Any]]:
    """See `sinks.old_letters`."""
    if isinstance(folder, ObjectFolder):
        url, options = delta_rs.location(folder)
        rows = read.read_table(url, partial(read.queried, sql=_ALL), options) or []
    elif is_local(path) and not os.path.isdir(f"{path}/_delta_log"):
        return []
    else:
        if session is not None and is_local(path) and (taken := take_back_newest(path)):
            _log.warning("%s: a power cut has left commits incomplete (%s)", path, ", ".join(map(str, taken)))
        with read_by(session) if session is not None and not is_local(path) else nullcontext():
            rows = read.query(path, _ALL)
    return [row | {"headers": [(h["key"], h["value"]) for h in row["headers"] or ()]} for row in rows]
