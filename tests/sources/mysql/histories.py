"""Random histories on a live server, under a pipeline that captures them while it is killed and started again.

python -m tests.sources.mysql.histories mariadb --first 7000 --histories 50
"""

from __future__ import annotations

import argparse
import traceback
from collections import Counter
from contextlib import suppress
from random import Random
from threading import Thread
from typing import Any

from changefeed import telemetry
from changefeed.errors import ChangefeedError, ProtocolError, ResourceError, SinkError, SourceError
from tests.killed import Killed
from tests.live.columns import Dialect
from tests.live.comparing import differences, without_zero_dates
from tests.live.history import History
from tests.live.session import Session
from tests.live.writing import PHASES, Drawing
from tests.services.database import Database, MariaDb, MariaDb118, MySql, MySql97
from tests.sources.mysql.following import Follower

SERVERS: dict[str, type[Database]] = {
    "mariadb": MariaDb, "mysql": MySql, "mariadb-11.8": MariaDb118, "mysql-9.7": MySql97,
}  # fmt: skip
METADATA = {"mariadb": ("FULL", "MINIMAL", "NO_LOG"), "mysql": ("FULL", "MINIMAL")}
_OPTIONS: dict[str, list[Any]] = {
    "chunk-rows": [1, 2, 3, 50], "max-records-per-batch": [1, 5, 100], "max-bytes-per-batch": [1, 500, 3000, 10**6],
}  # fmt: skip


def judged(
    database: Database, number: int, metadata: str | None = None, modes: str = "", snapshot_mode: str | None = None
) -> tuple[str, str]:
    """Executes and follows one history; returns a verdict and its text.

    Args:
        database: the server.
        number: of the history.
        metadata: the server's `binlog_row_metadata`; None: drawn by chance.
        modes: see `Session`.
        snapshot_mode: `snapshot.mode`; None: drawn by chance.

    The verdicts are `RIGHT`, `DRIFT` (of types), `STOP` (refused with a reason), `SERVER` (a defect of the server), `WRONG` and
    `CRASH`.
    """
    random = Random(f"{database.connector} {number}")
    history = History(f"h{number}", database.connector, "capture")
    mode = snapshot_mode or random.choice(["initial", "initial", "no_data"])
    metadata = metadata or Random(number).choice(METADATA[database.connector])
    with Session(database, modes) as session:
        session.query(f"SET GLOBAL binlog_row_metadata = {metadata}")
        mixed_case = session.query("SELECT @@lower_case_table_names") != [["0"]]
        dialect = Dialect(database.connector == "mariadb", mixed_case)
        writer = Drawing(session, history, number, dialect, rows_before=mode != "no_data")
        try:
            writer.write(0)
            tables = [f"{name}.*" for name in writer.databases]
            follower = Follower(database, tables, random, _OPTIONS | {"snapshot.mode": [mode]})
            outcome = _followed(writer, follower)
            writer.end()
            if outcome is not None:
                return outcome
            if history.keeps_old_name:
                return "SERVER", "ALTER TABLE … RENAME has left the table under its old name, too"
            return _compared(follower, history.tables, database.connector)
        finally:
            writer.drop()


def follow(
    database: Database, first: int, count: int, modes: str = "", snapshot_mode: str | None = None
) -> Counter[str]:
    """Executes and follows histories, from the number `first` on; returns how many have each verdict.

    Raises:
        AssertionError: the tables of one are wrong, or its pipeline has crashed.
    """
    counts = Counter[str]()
    for number in range(first, first + count):
        verdict, text = judged(database, number, modes=modes, snapshot_mode=snapshot_mode)
        assert verdict in ("RIGHT", "DRIFT", "STOP", "SERVER"), f"history {number}: {verdict}: {text}"
        counts[verdict] += 1
    return counts


def _followed(writer: Drawing, follower: Follower) -> tuple[str, str] | None:
    """Writes the other phases while the pipeline follows; None if it went on to the end."""
    failed = list[BaseException]()

    def write() -> None:
        try:
            for phase in range(1, PHASES):
                writer.write(phase)
        except Exception as error:  # raised in the thread that waits
            failed.append(error)

    writing = Thread(target=write)
    try:
        if follower.options["snapshot.mode"] == ["no_data"] or follower.random.random() < 0.5:
            follower.run()
        writing.start()
        for _ in range(follower.random.randint(1, 8)):
            _killed_run(follower)
        writing.join()
        if failed:
            raise failed[0]
        follower.run()
    except (SinkError, ResourceError, SourceError):
        return "CRASH", traceback.format_exc()
    except ChangefeedError as error:
        kind = "CRASH" if isinstance(error, ProtocolError) else "STOP"
        return kind, f"{type(error).__name__}: {error}"
    except Exception:  # a defect, whatever it is
        return "CRASH", traceback.format_exc()
    finally:
        if writing.is_alive():
            writing.join()
    return None


def _killed_run(follower: Follower) -> None:
    left = follower.random.choice([1, 2, 3, 5, 8, 13, 21, 34, 55])

    def passed(name: str) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            raise Killed(name)

    telemetry.on_pass = passed
    try:
        with suppress(Killed):
            follower.run(kill=0.1, batches=follower.random.choice([1, 3, None]))
    except SourceError as error:
        if not error.transient:  # a run tries again
            raise
    finally:
        telemetry.on_pass = None


def _compared(follower: Follower, right: dict[str, Any], server: str) -> tuple[str, str]:
    published = follower.storage.published()
    if not published:
        return "WRONG", "no step was published"
    state, storage = published[-1], follower.storage
    actual = {
        f"{t.table.database}.{t.table.name}": (
            t.table,
            storage.tables.rows(t.path) if t.path in storage.tables.tables else [],
        )
        for t in state.tables.values()
    }
    actual = {name: table for name, table in actual.items() if table[1] or name in right}
    right = {name: without_zero_dates(content) for name, content in right.items() if content.rows or name in actual}
    different = differences(actual, right, server)
    if state.counts.pending:
        return "WRONG", f"{state.counts.pending} changes are still pending"
    if not different:
        return "RIGHT", ""
    text = "; ".join(map(str, different))[:1500] + "\n" + "\n".join(follower.notes[-5:])
    return ("DRIFT" if all(d.what == "types" for d in different) else "WRONG"), text


def main() -> None:
    """Prints a verdict for each history that is not right, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", choices=SERVERS)
    parser.add_argument("--first", type=int, default=0, help="number of the first history")
    parser.add_argument("--histories", type=int, default=20)
    parser.add_argument("--metadata", help="binlog_row_metadata; drawn by chance without")
    parser.add_argument("--mode", help="snapshot.mode; drawn by chance without")
    parser.add_argument("--lower-case", action="store_true", help="lower_case_table_names=1, names in any case")
    arguments = parser.parse_args()
    counts = Counter[str]()
    with SERVERS[arguments.server](f"--lower-case-table-names={int(arguments.lower_case)}") as database:
        for number in range(arguments.first, arguments.first + arguments.histories):
            verdict, text = judged(database, number, arguments.metadata, snapshot_mode=arguments.mode)
            counts[verdict] += 1
            if verdict != "RIGHT":
                print(f"{number} {verdict} {text}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
