"""Bad records among good ones: whether every record is accounted for, and the tables are what the good ones say.

    python bench/bad_input.py [--good 1000000] [--bad 10000] [--seed 1] [--json]

Writes a record log of two tables over four partitions: inserts, updates and deletes, a mark every fiftieth of the way,
one part in a hundred sent twice as after a producer's restart, and one part in a hundred after the last mark. Between
them, at places and in ways drawn from the seed, lie bad records. A pipeline with the policy `continue` reads it all into
Delta. Then the account must add up, the dead letters must be the bad records with their bytes and no others, and each
table must have the rows that the good records leave at the last mark.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from changefeed import record_log
from changefeed.model.batch import record_batch
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.load import read
from changefeed.pipeline.dead_letters import letters
from changefeed.pipeline.letter_files import StoredLetter
from changefeed.pipeline.operations.status import status
from changefeed.pipeline.run import run

TS = 450_000_000_000_000_000
PARTITIONS = 4
TABLES = ("orders", "items")
DDL = "CREATE TABLE `shop`.`{}` (`id` BIGINT NOT NULL,`name` VARCHAR(64),`amount` DECIMAL(12,2),PRIMARY KEY(`id`))"
ROWS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.decimal128(12, 2))])

Row = tuple[int, str, Decimal]
Place = tuple[int, int]  # partition, offset
Bytes = tuple[bytes | None, bytes | None]


def framed(text: bytes, head: bytes = b"") -> bytes:
    """One message with its length, as the Open Protocol frames it."""
    return head + struct.pack(">q", len(text)) + text


def record(key: str, value: str | None) -> tuple[bytes, bytes]:
    """The key and the value of a record with one message; no value is the empty one of a mark."""
    return framed(key.encode(), struct.pack(">q", 1)), framed((value or "").encode())


def image(row: Row) -> str:
    """A row as the protocol writes it."""
    number, name, amount = row
    return (
        f'{{"id":{{"t":8,"h":true,"f":11,"v":{number}}},"name":{{"t":15,"f":64,"v":"{name}"}},'
        f'"amount":{{"t":246,"f":65,"v":"{amount}"}}}}'
    )


# What may have happened to a record; each makes one that no decoder may take.

Damage = Callable[[bytes, bytes, Random], Bytes]


def _misquoted(key: bytes, value: bytes, chance: Random) -> Bytes:
    quotes = [at for at, byte in enumerate(value) if byte == 0x22]
    at = chance.choice(quotes)
    return key, value[:at] + b"_" + value[at + 1 :]


DAMAGE: dict[str, Damage] = {
    "value cut short": lambda k, v, chance: (k, v[: chance.randrange(1, len(v))]),
    "key cut short": lambda k, v, chance: (k[: chance.randrange(9, len(k))], v),
    "a byte too many": lambda k, v, _: (k, v + b"\0"),
    "another protocol": lambda _, __, ___: (b'{"id":1}', b'{"payload":{"op":"c"}}'),
    "nothing in it": lambda _, __, ___: (b"", b""),
    "no key": lambda _, v, __: (None, v),
    "no value": lambda k, _, __: (k, None),
    "a version of the future": lambda k, v, _: (struct.pack(">q", 2) + k[8:], v),
    "a negative length": lambda k, v, _: (k, struct.pack(">q", -5) + v[8:]),
    "a quote lost": _misquoted,
    "not UTF-8": lambda k, v, _: (k.replace(b"shop", b"sh\xffp"), v),
    "a message of no known kind": lambda k, v, _: (k.replace(b'"t":1}', b'"t":7}'), v),
    "a column of no known type": lambda k, v, _: (k, v.replace(b'"t":15,', b'"t":99,')),
    "a text for a date": lambda k, v, _: (k, v.replace(b'"t":15,', b'"t":12,')),
    "a member of no known name": lambda k, v, _: (k, v.replace(b'"h":true', b'"H":true')),
}


@dataclass(slots=True)
class Log:
    """A record log while it is made, and what must come of it.

    Attributes:
        bad: place -> key and value of the bad records.
        rows: table -> id -> row at the last mark.
        made: how many records there are of each kind.
    """

    good: int
    damaged: int
    chance: Random
    bad: dict[Place, Bytes] = field(default_factory=dict)
    rows: dict[str, dict[int, Row]] = field(default_factory=lambda: {name: {} for name in TABLES})
    made: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    _next: list[int] = field(default_factory=lambda: [0] * PARTITIONS)

    def write(self, path: Path) -> None:
        """Writes all of it."""
        record_log.write(path, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        waiting: list[dict[str, Any]] = []
        for one in self._records():
            waiting.append(one)
            if len(waiting) == 10_000:
                yield record_batch(waiting)
                waiting = []
        yield record_batch(waiting)

    def _records(self) -> Iterator[dict[str, Any]]:
        for table in TABLES:
            yield from self._everywhere(f'{{"ts":{TS},"scm":"shop","tbl":"{table}","t":2}}', self._ddl(table))
        bad = Counter(self.chance.randrange(self.good) for _ in range(self.damaged))
        every, again, last = self.good // 50, self.good // 2, self.good * 99 // 100
        sent: list[tuple[int, Bytes]] = []  # what will be sent again
        for number in range(self.good):
            partition, (key, value) = self._row(number, marked=number < last)
            for _ in range(bad[number]):
                yield self._bad(partition, key, value)
            yield self._record("rows", partition, key, value)
            if again <= number < again + self.good // 100:
                sent.append((partition, (key, value)))
            if number == self.good * 3 // 4:
                yield from (self._record("sent again", to, *record) for to, record in sent)
            if number < last and (number % every == every - 1 or number == last - 1):
                yield from self._everywhere(f'{{"ts":{TS + 1 + number},"t":3}}', None)

    def _ddl(self, table: str) -> str:
        return json.dumps({"q": DDL.format(table), "t": 3})

    def _everywhere(self, key: str, value: str | None) -> Iterator[dict[str, Any]]:
        for partition in range(PARTITIONS):
            yield self._record("DDL" if value else "marks", partition, *record(key, value))

    def _row(self, number: int, *, marked: bool) -> tuple[int, tuple[bytes, bytes]]:
        """One change: of the rows that are there, or a new row; after the last mark new ones only."""
        table = self.chance.choice(TABLES)
        rows = self.rows[table]
        old = rows.get(self.chance.randrange(number + 1)) if marked else None
        row: Row = (
            old[0] if old else number,
            f"name {number}",
            Decimal(self.chance.randrange(10**6)).scaleb(-2),
        )
        new: Row | None = row
        if old is None:
            value = f'{{"u":{image(row)}}}'
        elif self.chance.random() < 0.3:
            value, new = f'{{"d":{image(old)}}}', None
        else:
            value = f'{{"u":{image(row)},"p":{image(old)}}}'
        at = (old or new or (0,))[0]
        if marked and new is not None:
            rows[at] = new
        elif marked:
            del rows[at]
        return at % PARTITIONS, record(f'{{"ts":{TS + 1 + number},"scm":"shop","tbl":"{table}","t":1}}', value)

    def _bad(self, partition: int, key: bytes, value: bytes) -> dict[str, Any]:
        kind = self.chance.choice(list(DAMAGE))
        damaged = DAMAGE[kind](key, value, self.chance)
        self.kinds[kind] += 1
        self.bad[partition, self._next[partition]] = damaged
        return self._record("bad", partition, *damaged)

    def _record(self, kind: str, partition: int, key: bytes | None, value: bytes | None) -> dict[str, Any]:
        self.made[kind] += 1
        self._next[partition] += 1
        offset = self._next[partition] - 1
        return {"topic": "shop", "partition": partition, "offset": offset, "key": key, "value": value}


def measure(spark: SparkSession, folder: Path, good: int, bad: int, seed: int, *, batches: int = 20) -> dict[str, Any]:
    """Makes the log, runs the pipeline, and returns the counts; `faults` lists the deviations from the expected result."""
    log = Log(good, bad, Random(seed))
    log.write(folder / "shop.parquet")
    source = {"type": "files", "path": str(folder / "shop.parquet"), "protocol": "ticdc-open"}
    definition = read(
        {
            "source": {**source, "max-records-per-batch": good // batches},
            "sink": {"type": "delta", "path": str(folder / "lake")},
            "pipeline": {"name": "bad-input", "dead-letters": "continue"},
        }
    )
    started = time.monotonic()
    run(definition, spark, once=True)
    seconds = time.monotonic() - started
    counts = status(definition).to_dict()["counts"]
    counts["pending"] = counts["rows"] - counts["applied"] - counts["repeated"]
    dead = letters(definition)
    return {
        "seed": seed,
        "seconds": round(seconds, 1),
        "made": dict(log.made),
        "damage": dict(sorted(log.kinds.items())),
        "counts": {name: counts[name] for name in ("records", "rows", "applied", "repeated", "pending", "dead")},
        "reasons": dict(sorted(Counter(letter.reason for letter in dead).items())),
        "tables": {table: len(rows) for table, rows in log.rows.items()},
        "faults": [*_account(log, counts), *_letters(log, dead), *_tables(log, definition)],
    }


def _account(log: Log, counts: dict[str, int]) -> Iterator[str]:
    """Compares the records and rows that were made with those that were counted."""
    made = log.made
    unmarked = log.good - log.good * 99 // 100
    wanted = {
        "records": made.total(),
        "dead": made["bad"],
        "rows": made["rows"] + made["sent again"],
        "applied": made["rows"] - unmarked,
        "repeated": made["sent again"],
        "pending": unmarked,
    }
    for name, count in wanted.items():
        if counts[name] != count:
            yield f"{name}: {counts[name]} counted, {count} made"
    control = made["DDL"] + made["marks"]
    accounted = sum(counts[name] for name in ("applied", "repeated", "dead", "pending"))
    if counts["records"] != accounted + control:
        yield f"{counts['records']} records read, {accounted} accounted for, {control} DDL and marks"


def _letters(log: Log, dead: list[StoredLetter]) -> Iterator[str]:
    """The dead letters are the bad records, each once, with its bytes."""
    kept = {(letter.partition, letter.offset): (letter.key, letter.value) for letter in dead}
    if len(kept) != len(dead):
        yield f"{len(dead) - len(kept)} dead letters twice"
    for place in sorted(log.bad.keys() - kept.keys())[:5]:
        yield f"shop:{place[0]}:{place[1]} is bad and no dead letter: {log.bad[place]}"
    for place in sorted(kept.keys() - log.bad.keys())[:5]:
        yield f"shop:{place[0]}:{place[1]} is a dead letter and not bad"
    for place in sorted(p for p in kept.keys() & log.bad.keys() if kept[p] != log.bad[p])[:5]:
        yield f"shop:{place[0]}:{place[1]} was kept with other bytes: {kept[place]} for {log.bad[place]}"


def _tables(log: Log, definition: Definition) -> Iterator[str]:
    """Each table has the rows of the last mark."""
    for table, rows in log.rows.items():
        columns = [list(column) for column in zip(*rows.values(), strict=True)]
        wanted = pa.table(columns, schema=ROWS).sort_by("id")
        lies = pa.table(DeltaTable(f"{definition.sink.path}/shop/{table}").to_pyarrow_table())
        actual = lies.select(ROWS.names).cast(ROWS).sort_by("id")
        if not actual.equals(wanted):
            yield f"{table} has {actual.num_rows} rows for {wanted.num_rows}, or other values in them"


def main() -> None:
    """Runs it and prints the account."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--good", type=int, default=1_000_000)
    parser.add_argument("--bad", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    from changefeed.spark_runtime.session import session

    spark = session("bad-input")
    with tempfile.TemporaryDirectory() as folder:
        result = measure(spark, Path(folder), arguments.good, arguments.bad, arguments.seed)
    spark.stop()
    if arguments.json:
        print(json.dumps(result, indent=1))
    else:
        counts = result["counts"]
        print("{records:,} records read, {dead:,} of them dead letters".format(**counts))
        print("{rows:,} rows = {applied:,} applied + {repeated:,} repeated + {pending:,} pending".format(**counts))
        print(*[f"{count:7,} {kind}" for kind, count in result["damage"].items()], sep="\n")
        print(f"{result['seconds']:.0f} s;", "; ".join(result["faults"]) or "all as it must be")
    sys.exit(1 if result["faults"] else 0)


if __name__ == "__main__":
    main()
