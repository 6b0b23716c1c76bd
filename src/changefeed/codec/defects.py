"""Guard of every decoder: a record for which the decoder raises becomes a dead letter, and the other records are decoded.

    batch ─▶ kernel and reference ─raises─▶ the reference alone ─raises─▶ the reference, record by record
                                                                             └─raises─▶ dead letter, reason `defect`

Rule 1. A decoder never raises for the content of a record. If one does, that is a defect of changefeed: only this record is
        set aside, with the trace, and the pipeline continues. A panic of the kernel is such a defect.
Rule 2. Other errors stop the decoder: wrong configuration, files and schema registry, memory, an interrupt.
Rule 3. A decoder's state about the order of records is reset to before the batch, and to before a record that raised.
Rule 4. Shapes are forgotten before a batch if there are too many, and after a batch that raised. Kernel and reference count
        in the same way, so that rows join the same shapes with either.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from changefeed.codec.placement import joined, renumbered
from changefeed.columnar.records import each_record
from changefeed.errors import ChangefeedError, ProtocolError, UnsupportedError
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.event import Control, DeadLetter
from changefeed.model.table import TableShape
from changefeed.protocols.base import Decoder, FragmentDecoder, OrderedDecoder

MAX_SHAPES = 4096
MAX_TEXT = 1 << 26  # characters of the shapes' wire texts
_log = logging.getLogger(__name__)
_MOST_TRACE = 8000


class GuardedDecoder:
    """A decoder that never raises for the content of a record.

    Attributes:
        name: the protocol's name.
    """

    def __init__(self, name: str, reference: Decoder) -> None:
        self.name = name
        self._reference = reference
        self._shapes_seen: set[TableShape] = set()
        self._text = 0

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """Decodes the records; see `protocols.base.Decoder`."""
        if len(self._shapes_seen) > MAX_SHAPES or self._text > MAX_TEXT:
            self.forget()
        mark = self._mark()
        try:
            return self._decode(records)
        except BaseException as error:  # a defect, or a panic, must not stop the pipeline: rule 1
            if not _is_defect(error):
                raise
            _log.exception("%s: a batch of %d records could not be decoded as a whole", self.name, len(records))
            return self._recovered(records, mark)

    def forget(self) -> None:
        """Forgets the shapes; see `protocols.base.Decoder`."""
        self._reference.forget()
        self._shapes_seen.clear()
        self._text = 0

    def _decode(self, records: pa.RecordBatch) -> Decoded:
        decoded = self._reference.decode(records)
        self._count(decoded.tables)
        return decoded

    def _count(self, tables: Iterable[TableBatch]) -> None:
        """Counts the shapes of a result of the reference: see rule 4."""
        for table in tables:
            if table.shape not in self._shapes_seen:
                self._shapes_seen.add(table.shape)
                self._text += len(table.shape.wire)

    def _mark(self) -> Any:
        return self._reference.mark() if isinstance(self._reference, OrderedDecoder) else None

    def _rewind(self, mark: Any) -> None:
        if isinstance(self._reference, OrderedDecoder):
            self._reference.rewind(mark)

    def _recovered(self, records: pa.RecordBatch, mark: Any) -> Decoded:
        """Decodes with the reference: the whole batch, or, if that raises too, record by record."""
        self._rewind(mark)
        self.forget()
        try:
            return self._reference.decode(records)
        except BaseException as error:  # the same: now the records are decoded one by one
            if not _is_defect(error):
                raise
            self._rewind(mark)
            return self._one_by_one(records)
        finally:
            self.forget()

    def _one_by_one(self, records: pa.RecordBatch) -> Decoded:
        tables: list[TableBatch] = []
        control: list[Control] = []
        dead: list[DeadLetter] = []
        for row in range(len(records)):
            mark, record = self._mark(), records.slice(row, 1)
            try:
                answer = renumbered(self._reference.decode(record), pa.array([row], pa.int32()))
            except BaseException as error:  # the same: this is the record, and it becomes a letter
                if not _is_defect(error):
                    raise
                self._rewind(mark)
                answer = renumbered(Decoded(dead=list(_letters(self.name, record, error))), pa.array([row], pa.int32()))
            tables += answer.tables
            control += answer.control
            dead += answer.dead
        return Decoded(joined(tables), control, dead)


class GuardedFragmentDecoder(GuardedDecoder):
    """A guarded decoder that keeps records of incomplete groups."""

    def waiting(self) -> pa.RecordBatch:
        """The records of incomplete groups; see `protocols.base.FragmentDecoder`."""
        assert isinstance(self._reference, FragmentDecoder)
        return self._reference.waiting()


def guarded(name: str, reference: Decoder) -> GuardedDecoder:
    """Returns a guarded decoder for a reference without a kernel."""
    return (GuardedFragmentDecoder if isinstance(reference, FragmentDecoder) else GuardedDecoder)(name, reference)


def _is_defect(error: BaseException) -> bool:
    """Whether an error is a defect of changefeed: not the user's, not of files or services, and not an interrupt."""
    if isinstance(error, ProtocolError | UnsupportedError):
        return True  # should have become a dead letter, but was not caught
    if isinstance(error, ChangefeedError | OSError | MemoryError):
        return False
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"  # no module exports the class


def _letters(name: str, record: pa.RecordBatch, error: BaseException) -> Iterator[DeadLetter]:
    trace = "".join(traceback.format_exception(error))[-_MOST_TRACE:]
    for place, key, value, headers in each_record(record):
        text = (
            f"{name}: {type(error).__name__}: {error!s:.200} ({place}). This is a defect of changefeed: please report it, "
            f"with what `changefeed dlq show` prints of this record\n{trace}"
        )
        yield DeadLetter(reason="defect", error=text, protocol=name, place=place, key=key, value=value, headers=headers)
