"""Translates Delta's errors to errors of changefeed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from changefeed.errors import FencedError, SinkError
from changefeed.sinks.ways_out import COLUMNS_CHANGED
from changefeed.spark_runtime.java_errors import first_line

_CONFLICTS = ("ConcurrentTransactionException", "MetadataChangedException", "ProtocolChangedException")
_OTHER_COLUMNS = (
    "DELTA_METADATA_MISMATCH", "DELTA_FAILED_TO_MERGE_FIELDS", "DELTA_MERGE_UNRESOLVED_EXPRESSION", "UNRESOLVED_COLUMN",
)  # fmt: skip
_APPEND_ONLY = "DELTA_CANNOT_MODIFY_APPEND_ONLY"
_RETRIED = ("ConcurrentAppendException", "ConcurrentDeleteReadException", "ConcurrentDeleteDeleteException")


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Translates Delta's errors inside the block; conflicts arrive as plain Java errors.

    Raises:
        FencedError: another run of the pipeline committed at the same time.
        SinkError: the table's columns are not those that the pipeline wrote, or it may only be appended to; or a conflict that
            another try may avoid.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import AnalysisException, PySparkException

    try:
        yield
    except AnalysisException as error:
        if (error.getCondition() or "").startswith(_OTHER_COLUMNS):
            raise _other_columns(path, str(error).splitlines()[0]) from error
        raise
    except PySparkException as error:
        if _APPEND_ONLY in str(error):
            raise SinkError(
                f"{path}: its property delta.appendOnly forbids updates and deletes. Set it to false (ALTER TABLE … SET "
                "TBLPROPERTIES), and run again: what was begun is finished first"
            ) from error
        raise
    except Py4JJavaError as error:
        name, reason = error.java_exception.getClass().getSimpleName(), first_line(error)
        if name in _CONFLICTS:
            raise FencedError(
                f"{path}: another writer of this pipeline committed at the same time ({name}: {reason})"
            ) from error
        if name in _RETRIED:
            raise SinkError(f"{path}: {name}: {reason}", transient=True) from error
        if other_columns := next((condition for condition in _OTHER_COLUMNS if condition in reason), None):
            raise _other_columns(
                path, other_columns
            ) from error  # pyspark does not find the texts of all of Delta's conditions
        raise


def _other_columns(path: str, reason: str) -> SinkError:
    return SinkError(
        f"{path}: its columns are not those that this pipeline gave it: another program has changed them ({reason}). "
        f"{COLUMNS_CHANGED}"
    )
