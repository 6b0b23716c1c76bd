"""A source of changes in one file, without a protocol: `source: {type: tests.toys.events, path: …}`.

Its folder is that of `lines.py`, but a line has changes, not bytes: a JSON array of those events that `changefeed decode --json`
prints for one record.

    <path>/orders.0.jsonl       topic `orders`, partition 0
        [{"kind":"shape",…}, {"kind":"row","op":"insert",…}]

`CAPABILITIES` declares the order of these changes, and how to know that everything up to some point was sent: here by a mark
in every partition, the event `resolved`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from pydantic import Field

from changefeed.frames.chunks import pack
from changefeed.frames.mapped import Mapped
from changefeed.model.batch import Decoded, record_columns
from changefeed.model.text.read import parse
from changefeed.protocols.base import Capabilities
from changefeed.sources.section import ChangesSection
from tests.toys.lines import LinesFolder, LinesSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from changefeed.frames.chunks import Dated
    from changefeed.frames.slices import Slices

CAPABILITIES = Capabilities(
    carries=frozenset({"op.insert", "op.update", "op.delete", "before", "schema", "resolved"}),
    cuts="marks",
    broadcast=True,
    restored_ddl=True,
)


@dataclass(frozen=True, slots=True)
class EventsFolder(LinesFolder):
    """The files of a folder; each line has the events of one record."""

    def chunks(self, name: str, start: int, end: int | None, limit: int | None = None) -> pa.RecordBatch:
        """The chunks of at most `limit` lines between two bytes of a file."""
        lines = list(self.lines(name, start, end))[:limit]
        topic, partition = self.partition(name)
        records = record_columns(
            len(lines),
            topic=[topic] * len(lines),
            partition=[partition] * len(lines),
            offset=[at for at, _ in lines],
            value=[line for _, line in lines],  # records without a value are tombstones
        )
        events = [event for _, line in lines for event in msgspec.json.decode(line, type=list[msgspec.Raw])]
        [decoded] = (
            parse(map(bytes, events), name=str(self.path / name), batch_events=len(events) + 1)
            if events
            else [Decoded()]
        )
        return pack(decoded, records)

    def read(self, name: str, start: int, end: int) -> pa.RecordBatch:
        """The chunks between two bytes of a file, for tasks."""
        return self.chunks(name, start, end)


@dataclass(frozen=True, slots=True)
class EventsSource(LinesSource):
    """See `Source`; the position of the stream is that of `lines.py`."""

    folder: EventsFolder
    capabilities = CAPABILITIES
    title = "JSON events"
    redefinition = None  # the events have the types that the DDL declares

    def chunks(
        self, records: DataFrame | Mapped | Slices, dated: Dated, fragments: DataFrame | None
    ) -> DataFrame | Mapped:
        """See `Source`: the tasks read chunks already."""
        assert isinstance(records, Mapped)
        return records

    def sample_chunks(self, limit: int) -> Iterator[pa.RecordBatch]:
        """See `Source`."""
        for name in self.folder.files():
            chunks = self.folder.chunks(name, 0, None, limit)
            limit -= sum(row["rows"] for row in chunks.to_pylist() if row["kind"] == "read")
            yield chunks


# The function by which the pipeline opens the source, and its section of the definition.


class EventsSection(ChangesSection):
    """JSON arrays of events, a file for each partition."""

    path: str = Field(description="The folder; relative to the definition.")

    @property
    def reads(self) -> str:
        """See `ChangesSection`."""
        return self.path


SECTION = EventsSection


def open_changes(section: EventsSection) -> EventsSource:
    """The source of changes that a section describes."""
    return EventsSource(EventsFolder(Path(section.path)), section.max_records_per_batch)
