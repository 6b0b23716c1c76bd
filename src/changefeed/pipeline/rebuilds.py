"""Folders in which `changefeed repair` rebuilds tables: each repair has its own, and deletes it at its end.

A repair that was killed leaves its folder. The next run or repair deletes it: their epoch is higher, so that the repair is fenced
even if it is still going on.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.paths import rebuilds_folder
from changefeed.pipeline.tables import folder_of
from changefeed.spark_runtime.files import file_system

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = re.compile(r"rebuild-(?:(\d{6,})-)?[0-9a-f]{32}")


def rebuild_folder(definition: Definition, epoch: int) -> str:
    """A new folder for a repair with this epoch."""
    return f"{rebuilds_folder(definition)}/rebuild-{epoch:06d}-{uuid.uuid4().hex}"


def delete_rebuilds(definition: Definition, spark: SparkSession, epoch: int) -> None:
    """Deletes the folders of repairs up to this epoch."""
    path = rebuilds_folder(definition)
    folder = folder_of(definition, path, spark)
    if folder is not None:
        for name in folder.folders():
            match = _NAME.fullmatch(name)
            if match and int(match[1] or 0) <= epoch:
                folder.delete_folder(name)
        return
    root, files = file_system(spark, path)
    if not files.exists(root):
        return
    for status in files.listStatus(root):
        match = _NAME.fullmatch(str(status.getPath().getName()))
        if match and int(match[1] or 0) <= epoch:
            files.delete(status.getPath(), True)
