"""Large things, one at a time: whether a run gets through, right, and what it takes.

    python bench/scale.py transaction [--rows 5000000]     one transaction; all processes below 4 GiB
    python bench/scale.py tables [--tables 1000]           so many tables in one log
    python bench/scale.py columns [--columns 1000]         a table of so many columns
    python bench/scale.py record [--mib 16]                a row of so many MiB
    python bench/scale.py transactions [--count 100000]    so many transactions of one row
    python bench/scale.py ddl [--count 2000]               so many schema changes
    python bench/scale.py steps [--steps 500]              so many steps; time, memory and files of the first and the last

Each writes a record log of `ticdc-open`, runs `changefeed run --once` over it, adds up the resident memory and the CPU of
all its processes while it runs, compares the tables with what was written (rows, sums, columns), and appends a line to
`bench/results/scale.txt`. Seconds of CPU stand beside those of the clock: other work on the machine changes the latter.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from bench.memory import TS, framed, resident, tree
from bench.memory import records as one_transaction
from changefeed import record_log
from changefeed.model.batch import record_batch

RESULTS = Path(__file__).parent / "results" / "scale.txt"
STEP = 1 << 18  # a millisecond of a TSO
_BATCH = 5_000  # records that are written at once


@dataclass
class Log:
    """A record log as it is written: records of one partition, at a commit_ts that goes up."""

    path: Path
    ts: int = TS
    count: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    batches: list[pa.RecordBatch] = field(default_factory=list)

    def ddl(self, database: str, table: str, text: str) -> None:
        """A schema change."""
        self.ts += STEP
        self._add({"ts": self.ts, "scm": database, "tbl": table, "t": 2}, json.dumps({"q": text, "t": 3}).encode())

    def row(self, database: str, table: str, value: bytes) -> None:
        """A row as the protocol has it, at the current commit_ts."""
        self._add({"ts": self.ts, "scm": database, "tbl": table, "t": 1}, value)

    def mark(self) -> None:
        """Everything so far is complete."""
        self._add({"ts": self.ts, "t": 3}, b"")

    def _add(self, head: dict[str, Any], value: bytes) -> None:
        key = framed(json.dumps(head, separators=(",", ":")).encode(), version=True)
        self.rows.append(
            {"topic": "big", "partition": 0, "offset": self.count, "key": key, "value": framed(value)},
        )
        self.count += 1
        if len(self.rows) == _BATCH:
            self._flush()

    def _flush(self) -> None:
        self.batches.append(record_batch(self.rows))
        self.rows = []

    def write(self) -> None:
        """To the disk."""
        if self.rows:
            self._flush()
        record_log.write(self.path, self.batches)


def inserted(number: int, note: str = "x") -> bytes:
    """A row of `id` and `note`."""
    return b'{"u":{"id":{"t":8,"h":true,"f":11,"v":%d},"note":{"t":15,"f":64,"v":"%s"}}}' % (number, note.encode())


def create(table: str, more: str = "") -> str:
    """The statement for a table of such rows."""
    return f"CREATE TABLE `big`.`{table}` (`id` BIGINT NOT NULL,`note` LONGTEXT{more},PRIMARY KEY(`id`))"


@dataclass
class Taken:
    """Time, CPU and memory of a run."""

    exit: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    peak: int = 0
    parts: dict[str, int] = field(default_factory=dict)
    # seconds, CPU, resident bytes, files of the ledger and of the tables at each step's end
    steps: list[tuple[float, float, int, tuple[int, int]]] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    def words(self) -> str:
        """The run as a line of the results file."""
        parts = ", ".join(
            f"{name} {size / 2**30:.2f}" for name, size in sorted(self.parts.items(), key=lambda p: -p[1])[:3]
        )
        text = f"exit {self.exit}, {self.seconds:.0f} s, {self.cpu:.0f} s of CPU, {self.peak / 2**30:.2f} GiB at most ({parts})"
        return text + (f"; {self.error}" if self.error else "")


def cpu_of(pid: int) -> float:
    """Seconds of CPU of a process, by its clock; 0 if it has ended."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def run(folder: Path, limit: int, heap: str) -> Taken:
    """Runs the pipeline over the log in `folder`, and watches its processes."""
    source = {"type": "files", "path": "log.parquet", "protocol": "ticdc-open", "max-records-per-batch": limit}
    sink = {"type": "delta", "path": "lake"}
    content = {"source": source, "sink": sink, "pipeline": {"name": "big"}, "spark": {"spark.driver.memory": heap}}
    file = folder / "pipeline.yaml"
    file.write_text(json.dumps(content))
    taken, spent, began = Taken(), dict[int, float](), time.monotonic()
    output, errors = folder / "output.jsonl", folder / "errors.txt"
    with output.open("w") as out, errors.open("w") as err:
        command = [sys.executable, "-m", "changefeed.cli", "run", str(file), "--once", "--json"]
        process = subprocess.Popen(command, stdout=out, stderr=err)
        with output.open() as lines:
            while process.poll() is None:
                pids = tree(process.pid)
                spent |= {pid: used for pid in pids if (used := cpu_of(pid))}
                memory = resident(pids)
                if sum(memory.values()) > taken.peak:
                    taken.peak, taken.parts = sum(memory.values()), memory
                for line in lines:
                    if line.startswith('{"event":"step"') or '"event": "step"' in line:
                        used = sum(spent.values())
                        taken.steps.append(
                            (time.monotonic() - began, used, sum(memory.values()), files(folder / "lake"))
                        )
                time.sleep(0.2)
    taken.exit, taken.seconds, taken.cpu = process.returncode, time.monotonic() - began, sum(spent.values())
    last = output.read_text().strip().splitlines()
    taken.state = json.loads(last[-1]) if last else {}
    taken.error = "" if taken.exit == 0 else (errors.read_text().strip().splitlines() or [""])[-1][:300]
    return taken


def files(lake: Path) -> tuple[int, int]:
    """The number of files of the ledger with the pending store, and of the tables."""
    both = [0, 0]
    for place, _, names in os.walk(lake):
        both["_changefeed" not in Path(place).relative_to(lake).parts] += len(names)
    return both[0], both[1]


def asked(taken: Taken, table: str, sql: str) -> dict[str, Any]:
    """The one row of a query over a table of the newest cut."""
    table_state = taken.state["tables"][f"big.{table}"]
    rows = (
        QueryBuilder()
        .register("t", DeltaTable(table_state["path"], version=table_state["version"]))
        .execute(sql)
        .read_all()
    )
    row: dict[str, Any] = pa.table(rows).to_pylist()[0]
    return row


def compared(actual: Any, wanted: Any) -> str:
    """In words."""
    return "right" if actual == wanted else f"WRONG: {str(actual)[:200]} for {str(wanted)[:200]}"


def transaction(folder: Path, rows: int) -> tuple[Taken, str]:
    """One transaction of `rows` rows."""
    record_log.write(folder / "log.parquet", one_transaction(rows, 2))
    taken = run(folder, 20_000, "2g")
    if taken.exit:
        return taken, "not compared"
    actual = asked(taken, "rows", "SELECT count(*) AS n, sum(id) AS s, count(DISTINCT name) AS d FROM t")
    right = compared(actual, {"n": rows, "s": rows * (rows - 1) // 2, "d": rows})
    return taken, f"{right}; {'below' if taken.peak < 4 * 2**30 else 'NOT below'} 4 GiB"


def tables(folder: Path, count: int) -> tuple[Taken, str]:
    """`count` tables: all made, then rows in each in three rounds with a mark behind each."""
    log = Log(folder / "log.parquet")
    for number in range(count):
        log.ddl("big", f"t{number}", create(f"t{number}"))
    for turn in range(3):
        log.ts += STEP
        for number in range(count):
            for row in range(3):
                log.row("big", f"t{number}", inserted(number * 100 + turn * 10 + row))
        log.mark()
    log.write()
    taken = run(folder, 100_000, "2g")
    if taken.exit:
        return taken, "not compared"
    sums = [asked(taken, f"t{n}", "SELECT count(*) AS n, sum(id) AS s FROM t") for n in range(count)]
    return taken, compared(sums, [{"n": 9, "s": n * 900 + 99} for n in range(count)])


def columns(folder: Path, count: int) -> tuple[Taken, str]:
    """A table of `count` columns beside its key, 500 rows, some updated."""
    log = Log(folder / "log.parquet")
    names = [f"c{i}" for i in range(count)]
    log.ddl("big", "wide", create("wide", "".join(f",`{name}` INT" for name in names)))

    def value(row: int, plus: int) -> bytes:
        cells = ",".join(f'"{name}":{{"t":3,"f":64,"v":{i + row + plus}}}' for i, name in enumerate(names))
        return inserted(row)[:-2] + b"," + cells.encode() + b"}}"

    for plus, rows in ((0, 500), (1, 100)):
        log.ts += STEP
        for row in range(rows):
            log.row("big", "wide", value(row, plus))
        log.mark()
    log.write()
    taken = run(folder, 500, "2g")
    if taken.exit:
        return taken, "not compared"
    actual = asked(taken, "wide", f"SELECT count(*) AS n, sum(c0) AS a, sum(c{count - 1}) AS z FROM t")
    a = 500 * 499 // 2 + 100
    return taken, compared(actual, {"n": 500, "a": a, "z": a + 500 * (count - 1)})


def record(folder: Path, mib: int) -> tuple[Taken, str]:
    """Rows of `mib` MiB of text, five of them, between small ones."""
    log, size = Log(folder / "log.parquet"), mib * 2**20 - 200
    log.ddl("big", "large", create("large"))
    for number in range(50):
        log.ts += STEP
        log.row("big", "large", inserted(number, "é" * (size // 2) if number % 10 == 5 else "small"))
    log.mark()
    log.write()
    taken = run(folder, 10, "2g")
    if taken.exit:
        return taken, "not compared"
    actual = asked(taken, "large", "SELECT count(*) AS n, sum(character_length(note)) AS s FROM t")
    return taken, compared(actual, {"n": 50, "s": 5 * (size // 2) + 45 * len("small")})


def transactions(folder: Path, count: int) -> tuple[Taken, str]:
    """`count` transactions of one row over ten tables, a mark behind each thousand."""
    log = Log(folder / "log.parquet")
    for number in range(10):
        log.ddl("big", f"t{number}", create(f"t{number}"))
    for number in range(count):
        log.ts += STEP
        log.row("big", f"t{number % 10}", inserted(number // 10 % 5_000, f"n{number}"))
        if number % 1000 == 999:
            log.mark()
    log.mark()
    log.write()
    taken = run(folder, 20_000, "2g")
    if taken.exit:
        return taken, "not compared"
    newest = {(n % 10, n // 10 % 5_000): n for n in range(count)}
    actual = [
        asked(taken, f"t{t}", "SELECT count(*) AS n, sum(CAST(substr(note, 2) AS BIGINT)) AS s FROM t")
        for t in range(10)
    ]
    per = [[n for (of, _), n in newest.items() if of == t] for t in range(10)]
    return taken, compared(actual, [{"n": len(p), "s": sum(p)} for p in per])


def ddl(folder: Path, count: int) -> tuple[Taken, str]:
    """`count` schema changes of twenty tables, columns that come and go, a row behind each, a mark behind each hundred."""
    log, have = Log(folder / "log.parquet"), [list[str]() for _ in range(20)]
    for number in range(20):
        log.ddl("big", f"t{number}", create(f"t{number}"))
    for number in range(count - 20):
        at, t = have[number % 20], f"t{number % 20}"
        if len(at) < 5:
            at.append(f"c{number}")
            log.ddl("big", t, f"ALTER TABLE `big`.`{t}` ADD COLUMN `c{number}` INT NULL")
        else:
            log.ddl("big", t, f"ALTER TABLE `big`.`{t}` DROP COLUMN `{at.pop(0)}`")
        log.ts += STEP
        cells = "".join(f',"{name}":{{"t":3,"f":64,"v":{number}}}' for name in at)
        log.row("big", t, inserted(number)[:-2] + cells.encode() + b"}}")
        if number % 100 == 99:
            log.mark()
    log.mark()
    log.write()
    taken = run(folder, 400, "2g")
    if taken.exit:
        return taken, "not compared"
    actual = []
    for of in range(20):
        table_state = taken.state["tables"][f"big.t{of}"]
        table = DeltaTable(table_state["path"], version=table_state["version"])
        names = [field.name for field in table.schema().fields]
        actual.append((names, asked(taken, f"t{of}", "SELECT count(*) AS n, sum(id) AS s FROM t")))
    ids = [range(of, count - 20, 20) for of in range(20)]
    return taken, compared(actual, [(["id", "note", *have[n]], {"n": len(i), "s": sum(i)}) for n, i in enumerate(ids)])


def steps(folder: Path, count: int) -> tuple[Taken, str]:
    """`count` steps over three tables, twenty rows each."""
    log = Log(folder / "log.parquet")
    for number in range(3):
        log.ddl("big", f"t{number}", create(f"t{number}"))
    for number in range(count):
        log.ts += STEP
        for row in range(20 if number else 17):  # the first batch has the schema changes too
            log.row("big", f"t{row % 3}", inserted(number * 20 + row))
        log.mark()
    log.write()
    taken = run(folder, 21, "1g")
    if taken.exit:
        return taken, "not compared"
    actual = [asked(taken, f"t{t}", "SELECT count(*) AS n, sum(id) AS s FROM t") for t in range(3)]
    ids = [[n * 20 + r for n in range(count) for r in range(20 if n else 17) if r % 3 == t] for t in range(3)]
    lines = [f"{len(taken.steps)} steps"]
    for at in sorted({1, count // 5, count // 2, count}):
        if 1 <= at <= len(taken.steps):
            first = max(
                0, min(at - 1, at - 11)
            )  # the mean of ten steps; the first one alone, from the start of the run
            (s0, c0, _, _), (s1, c1, size, (of_ledger, of_tables)) = taken.steps[first], taken.steps[at - 1]
            share = max(1, at - 1 - first)
            each = (
                f"{(s1 - s0) / share:.2f} s, {(c1 - c0) / share:.2f} s of CPU"
                if at > 1
                else f"{s1:.2f} s with the start"
            )
            lines.append(
                f"step {at}: {each}, {size / 2**30:.2f} GiB, {of_ledger} files of the ledger, {of_tables} of tables"
            )
    return taken, "; ".join([compared(actual, [{"n": len(i), "s": sum(i)} for i in ids]), *lines])


CASES: dict[str, tuple[Callable[[Path, int], tuple[Taken, str]], str, int]] = {
    "transaction": (transaction, "rows", 5_000_000),
    "tables": (tables, "tables", 1_000),
    "columns": (columns, "columns", 1_000),
    "record": (record, "mib", 16),
    "transactions": (transactions, "count", 100_000),
    "ddl": (ddl, "count", 2_000),
    "steps": (steps, "steps", 500),
}


def _parsed() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="case", required=True)
    for name, (_, option, default) in CASES.items():
        command = commands.add_parser(name)
        command.add_argument(f"--{option}", dest="size", type=int, default=default)
        command.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def main() -> None:
    """Runs one case, and writes down what it took."""
    arguments = _parsed()
    case, option, _ = CASES[arguments.case]
    with tempfile.TemporaryDirectory(prefix="changefeed-scale-") as folder:
        taken, right = case(Path(folder), arguments.size)
    line = f"{arguments.case} ({arguments.size} {option}): {taken.words()}; {right}"
    print(line)
    with arguments.out.open("a") as out:
        print(line, file=out)
    sys.exit(0 if taken.exit == 0 and "WRONG" not in right and "NOT" not in right else 1)


if __name__ == "__main__":
    main()
