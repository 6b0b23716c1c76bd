"""A history as the binlog of a MySQL has it: its statements, its rows, and the ends of its transactions, as lines of text.

The server executes what TiDB accepts, too, so that the log can be sent as TiCDC sends it; see `sending.py`. Rows are read by the
event stream of the product, statements from the files of the log: these have the session's database. Each statement has the
columns of the tables that it has changed from the server's own catalogue, as a producer describes them.

    {"kind":"schema","database":"h7a","ddl":"RENAME TABLE …","restored":[…],"defined":{"h7a.t1":[{"name":"id",…},…]},…}
    {"kind":"shape",…}, {"kind":"row",…}, {"kind":"transaction",…}       see `changefeed.model.text`
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from changefeed.model import text
from changefeed.model.types import ColumnType
from changefeed.mysql.binlog import Parser
from changefeed.mysql.binlog.events import Query
from changefeed.mysql.ddl.kind import kind
from changefeed.sources import StreamBatch
from changefeed.sources.mysql import open_stream
from changefeed.sources.mysql.source_offset import LogPosition
from changefeed.sources.mysql.statements import done_by_failed
from tests.live.columns import Dialect
from tests.live.comparing import is_same_type
from tests.live.history import History
from tests.live.recording import Job
from tests.live.schema import MARKER, ServerTable
from tests.live.session import Session
from tests.live.writing import PHASES, Drawing, Repeating, Tables, full_name
from tests.services.database import Database
from tests.services.tidb_parser import TidbParser
from tests.sources.mysql.following import section

Line = dict[str, Any]


class LogRound:
    """Executes and records histories on a server, one after the other.

    Attributes:
        parser: of the statements, where the histories are TiDB's; None: all that the server accepts is executed.
    """

    def __init__(self, database: Database, parser: TidbParser | None, *, lower_case: bool) -> None:
        self.database, self.parser, self.lower_case = database, parser, lower_case
        self.dialect = Dialect(database.connector == "mariadb")

    def record(self, jobs: Sequence[Job]) -> list[History]:
        """Executes and records the histories."""
        with Session(self.database) as session:
            session.execute("SET GLOBAL binlog_row_metadata = FULL")
            return [self._recorded(session, job) for job in jobs]

    def _recorded(self, session: Session, job: Job) -> History:
        session.execute("RESET MASTER")
        history = History(job.name, self.database.connector, "log", self.lower_case)
        writer: Drawing | Repeating
        if job.statements is None:
            writer = Drawing(session, history, job.number, self.dialect)
        else:
            writer = Repeating(session, history, job.statements, job.prefix)
        log = _Log(session, self.database, self.parser, writer.databases)
        writer.accepts, writer.noticed = log.accepts, log.noticed
        try:
            for phase in range(PHASES):
                writer.write(phase)
            writer.mark(0)
            writer.end()
            history.log = log.lines()
        finally:
            log.close()
            writer.drop()
        if history.keeps_old_name:
            history.died = "ALTER TABLE … RENAME has left the table under its old name, too"
        else:
            _compare_shapes(history)
        return history


class _Log:
    """The log of one history, from the moment when this is made."""

    def __init__(
        self, session: Session, database: Database, parser: TidbParser | None, databases: Sequence[str]
    ) -> None:
        self._session, self._database, self._parser, self._databases = session, database, parser, databases
        tables = [f"{name}.*" for name in databases]
        self._stream = open_stream(section(database, tables=tables, **{"snapshot.mode": "no_data"}), {})
        (self._begin,) = [batch.source_offset for batch in self._stream.batches(None) if batch.source_offset]
        self._defined: dict[int, dict[str, Any]] = {}  # place of the log after a statement -> tables that it changed

    def close(self) -> None:
        """Closes the stream's connections."""
        self._stream.close()

    def accepts(self, text: str) -> bool:
        """Whether TiDB would execute a statement."""
        return self._parser is None or self._parser.read(text, self._databases[0]) is not None

    def noticed(self, changed: Tables) -> None:
        """Keeps the columns of the tables that the last statement has changed."""
        file, position, *_ = self._session.query("SHOW MASTER STATUS")[0]
        defined = {full_name(name): _columns(table) for name, table in changed.items()}
        self._defined[LogPosition(file, int(position)).number] = defined

    def lines(self) -> list[Line]:
        """All lines, in the order of the log; shapes come first."""
        return sorted([*self._statements(), *self._rows()], key=_place)

    def _statements(self) -> list[Line]:
        """The statements in the files of the log, but BEGIN and COMMIT."""
        lines, ends = list[Line](), list[int]()
        for file in self._database.binlogs():
            for event in Parser().file(file.read_bytes()):
                if not isinstance(event, Query) or event.text.upper() in ("BEGIN", "COMMIT", "ROLLBACK"):
                    continue
                statement = done_by_failed(event.text, event.database) if event.error else event.text
                if statement is None or MARKER in statement:
                    continue
                assert event.header.position is not None
                begin, end = (
                    LogPosition(file.name, at).number for at in (event.header.position, event.header.next_position)
                )
                ends.append(end)
                lines.append({
                    "kind": "schema", "type": kind(statement, event.database), "database": event.database, "ddl": statement,
                    "commit_ts": begin, "seconds": event.header.timestamp,
                    "restored": self._parser.read(statement, event.database) if self._parser else None,
                    "defined": {},
                })  # fmt: skip
        for place, defined in self._defined.items():
            lines[bisect_right(ends, place) - 1]["defined"] |= defined
        return lines

    def _rows(self) -> Iterator[Line]:
        """The rows and the ends of transactions, as the stream reads them."""
        shapes = set[str]()
        for batch in self._batches():
            for line in map(json.loads, text.lines(batch.changes)):
                names = (line.get("table"), *(name.rpartition(".")[2] for name in line.get("tables") or ()))
                if MARKER in names or (line["kind"] == "shape" and line["shape"] in shapes):
                    continue
                if line["kind"] == "shape":
                    shapes.add(line["shape"])
                if line["kind"] in ("shape", "row", "transaction"):
                    yield line

    def _batches(self) -> Iterator[StreamBatch]:
        source_offset: str | None = self._begin
        while batches := list(self._stream.batches(source_offset)):
            if batches[-1].source_offset == source_offset:
                return
            yield from batches
            source_offset = batches[-1].source_offset


def _columns(table: ServerTable) -> list[Line]:
    """A table's columns as a line of text has them, and whether they are virtual."""
    return [
        {
            "name": c.name,
            "type": str(ColumnType.parse(c.type)),
            "nullable": c.nullable,
            "key": c.name in table.handle,
            "virtual": c.generated == "virtual",
        }
        for c in table.columns
    ]


def _place(line: Line) -> tuple[int, int]:
    """The place of a line in the log; shapes come first."""
    if line["kind"] == "schema":
        return line["commit_ts"], 0
    if line["kind"] == "shape":
        return 0, 0
    _, _, offset, index = line["position"].rsplit(":", 3)
    return int(offset), int(index)


def _compare_shapes(history: History) -> None:
    """Checks that the stream has given each row the columns that the server's catalogue has.

    Raises:
        AssertionError: it has not.
    """
    defined: dict[str, list[Line]] = {}
    shapes = {line["shape"]: line["columns"] for line in history.log if line["kind"] == "shape"}
    for line in history.log:
        if line["kind"] == "schema":
            defined |= line["defined"]
        if line["kind"] != "row":
            continue
        name, columns = f"{line['database']}.{line['table']}", shapes[line["shape"]]
        right = defined[name]
        assert [c["name"] for c in columns] == [c["name"] for c in right], (name, columns, right)
        for column, its in zip(columns, right, strict=True):
            assert is_same_type(ColumnType.parse(column["type"]), its["type"]), (name, column, its)
