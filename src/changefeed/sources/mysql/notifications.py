"""Notifications of a snapshot for events, as the connector writes them into a topic of their own.

    STARTED    IN_PROGRESS shop.a    (rows of shop.a)    TABLE_SCAN_COMPLETED shop.a, 2 rows    …    COMPLETED

Rule 1. They lie among the rows, and are written where the sink's protocol is the connector's; see `debezium_mysql/notices.py`.
Rule 2. Those of a requested snapshot have the id of the signal, or one of their own.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from changefeed.model.batch import Decoded
from changefeed.model.event import Heartbeat, Instant
from changefeed.model.names import full_name
from changefeed.model.position import Place
from changefeed.sources.copies import CopyRequest
from changefeed.sources.mysql.changes import PARTITION
from changefeed.sources.mysql.tables import CopiedTable


@dataclass(frozen=True, slots=True)
class Notifications:
    """The notifications of a snapshot.

    Attributes:
        topic: their topic; None: there are none.
        tables: those of the snapshot, in its order.
        request: what was requested; None: the snapshot with which a pipeline begins.
    """

    topic: str | None
    tables: tuple[CopiedTable, ...]
    request: CopyRequest | None = None

    def started(self) -> Iterator[Decoded]:
        """Yields the first notification."""
        yield from self._made("STARTED", {} if self.request is None else {"data_collections": self._names})

    def among(self, parts: Iterable[tuple[CopiedTable, Decoded]]) -> Iterator[Decoded]:
        """Yields the rows of a snapshot, with notifications where a table begins and ends, and at the end of all.

        Args:
            parts: rows of one table each, in the order of the tables.
        """
        groups = groupby(parts, key=lambda part: part[0].name)
        following = next(groups, None)
        for table in self.tables:
            data = {"current_collection_in_progress": full_name(*table.name), "data_collections": self._names}
            yield from self._made("IN_PROGRESS", data)
            count = 0
            if following is not None and following[0] == table.name:
                for _, rows in following[1]:
                    count += sum(map(len, rows.tables))
                    yield rows
                following = next(groups, None)
            data = {
                "scanned_collection": full_name(*table.name), "total_rows_scanned": str(count), "status": "SUCCEEDED",
                "data_collections": self._names,
            }  # fmt: skip
            yield from self._made("TABLE_SCAN_COMPLETED", data)
        yield from self._made("COMPLETED", {})

    @property
    def _names(self) -> str:
        return ",".join(full_name(*table.name) for table in self.tables)

    def _made(self, kind: str, data: dict[str, str]) -> Iterator[Decoded]:
        if self.topic is None:
            return
        name = str(uuid.uuid4()) if self.request is None or self.request.id is None else self.request.id
        aggregate = "Initial Snapshot" if self.request is None else "Incremental Snapshot"
        notification = {"id": name, "type": kind, "aggregate_type": aggregate, "additional_data": data}
        instant = Instant(time.time_ns() // 1_000_000 * 1000, 3)
        yield Decoded(control=[Heartbeat(Place(self.topic, PARTITION, 0), instant, {"notification": notification})])
