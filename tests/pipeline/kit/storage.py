"""Damage to a pipeline's files: prepared states of one pipeline, its files by their role, and kinds of damage.

Three states of one sink are made once: an early one, one `between` two steps, one in a `begun` step with one of two
tables written. A case takes a copy, damages it, lets the history go on, and judges the outcome.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from changefeed import record_log, telemetry
from changefeed.errors import ChangefeedError
from changefeed.model.batch import record_batch
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.paths import ledger_folder
from changefeed.pipeline.run import run
from changefeed.pipeline.state import State
from changefeed.pipeline.store.hadoop import folder_to_read
from changefeed.pipeline.store.reading import FileReader
from tests.killed import Killed
from tests.pipeline.kit.history import HistoryBuilder
from tests.pipeline.kit.oracle import History, same_rows
from tests.pipeline.kit.running import Published, definition, published
from tests.pipeline.kit.tables import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOMENTS = ("between", "begun")
KEYED, KEYLESS = "app/orders", "app/notes"
Parts = tuple[int, int]


@dataclass(frozen=True)
class Prepared:
    """The states of the sink, by name, and the log that goes on behind each of them."""

    folder: Path
    log: Path
    history: History
    mark: int
    records: int

    def copy(self, state: str, to: Path) -> None:
        """Puts a state of the sink at `to`."""
        shutil.copytree(self.folder / state, to)

    def pipeline(self, lake: Path, limit: int = 1000) -> Definition:
        """The pipeline over a copy."""
        return definition(self.log, lake, limit=limit, parallelism=1, **{"dead-letters": "continue"})

    def undamaged(self, sum: str) -> State:
        """The state in the entry with this checksum, as the undamaged ledgers have it."""
        for name in MOMENTS:
            pipeline = self.pipeline(self.folder / name)
            reader = FileReader(folder_to_read(ledger_folder(pipeline), pipeline.storage, pipeline.spark), "test")
            head = reader.head()
            for entry, own in reader.live(head) if head else []:
                if own == sum:
                    return reader.state(entry)
        raise AssertionError("an entry that was written after the damage names definitions that cannot be read")


def prepare(spark: SparkSession, folder: Path) -> Prepared:
    """Makes the states: `early`, `between`, `begun`."""
    builder, (first, second) = _history()
    clean = builder.write(folder / "clean.jsonl")
    pieces = _with_dead_letters(clean, first, second)
    log, lake = folder / "app.jsonl", folder / "lake"
    prepared = Prepared(folder, log, History(clean), builder.ts, sum(map(len, pieces)))
    spark = spark.newSession()  # so that there are checkpoints after a few commits
    spark.conf.set("spark.databricks.delta.properties.defaults.checkpointInterval", "2")
    for piece, state, limit in zip(pieces, ("early", "between", "begun"), (1000, 6, 8), strict=True):
        record_log.write(folder / "piece.jsonl", [record_batch(piece)])
        with log.open("ab") as out:
            out.write((folder / "piece.jsonl").read_bytes())
        if state == "begun":
            _killed_after_one_table(prepared.pipeline(lake, limit), spark)
        else:
            run(prepared.pipeline(lake, limit), spark, once=True)
        shutil.copytree(lake, folder / state)
    assert published(prepared.pipeline(folder / "between"))[-1].state.pending
    return prepared


def _history() -> tuple[HistoryBuilder, Parts]:
    """The whole history, and the numbers of records after which the states `early` and `between` are reached."""
    h = HistoryBuilder()
    ends: list[int] = []
    h.schema("app", "orders", "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`qty` INT,PRIMARY KEY(`id`))")
    h.schema("app", "notes", "CREATE TABLE `app`.`notes` (`n` INT NOT NULL,`note` VARCHAR(20))")
    for i in range(4):
        h.rows(("orders", None, {"id": i, "qty": i}), ("notes", None, {"n": i, "note": f"first {i}"}))
    h.resolved()
    ends.append(h.records)
    for i in range(4, 7):
        h.rows(("orders", None, {"id": i, "qty": i}), ("notes", None, {"n": i, "note": f"second {i}"}))
        h.resolved()
    h.schema("app", "orders", "ALTER TABLE `app`.`orders` ADD COLUMN `note` VARCHAR(20) NULL")
    h.rows(("orders", {"id": 1, "qty": 1, "note": None}, {"id": 1, "qty": 10, "note": "dear"}))
    h.rows(("orders", {"id": 2, "qty": 2, "note": None}, None), ("notes", None, {"n": 7, "note": "third"}))
    h.resolved()
    h.rows(("orders", None, {"id": 20, "qty": 1, "note": "waits"}), ("notes", None, {"n": 20, "note": "waits"}))
    ends.append(h.records)
    h.rows(("orders", None, {"id": 21, "qty": 1, "note": "next"}), ("notes", None, {"n": 21, "note": "next"}))
    h.resolved()
    h.rows(("orders", {"id": 3, "qty": 3, "note": None}, {"id": 3, "qty": 30, "note": "on"}))
    h.rows(("orders", {"id": 4, "qty": 4, "note": None}, None), ("notes", None, {"n": 22, "note": "later"}))
    h.resolved()
    h.schema("app", "orders", "ALTER TABLE `app`.`orders` DROP COLUMN `qty`")
    h.rows(("orders", None, {"id": 30, "note": "last"}), ("notes", None, {"n": 30, "note": "last"}))
    h.resolved()
    return h, (ends[0], ends[1])


def _with_dead_letters(clean: Path, first: int, second: int) -> list[list[dict[str, Any]]]:
    """The records in three pieces, each with one that cannot be decoded."""
    good = [row for batch in record_log.read(clean) for row in batch.to_pylist()]
    bad = {**good[-1], "value": b"\0", "key": b"\0"}
    pieces = [[*good[:first], dict(bad)], [dict(bad), *good[first:second]], [dict(bad), *good[second:]]]
    offsets: dict[int, int] = {}
    for row in (row for piece in pieces for row in piece):
        row["offset"] = offsets[row["partition"]] = offsets.get(row["partition"], -1) + 1
    return pieces


def _killed_after_one_table(pipeline: Definition, spark: SparkSession) -> None:
    """A run that ends in its first step, when one of two tables has been written."""

    def on_pass(name: str) -> None:
        if name in ("load.after", "create.after", "upsert.after", "append.after"):
            raise Killed(name)

    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(telemetry, "on_pass", on_pass)
        run(pipeline, spark, once=True)
        raise AssertionError("no table was written")


# Files by their role.

_DELTA = (
    (re.compile(r"_delta_log/\d{20}\.json"), "commit"),
    (re.compile(r"_delta_log/\d{20}\.checkpoint(\.[\w.-]+)?\.parquet"), "checkpoint"),
    (re.compile(r"_delta_log/_last_checkpoint"), "last checkpoint"),
    (re.compile(r"_delta_log/\d{20}\.crc"), "version checksum"),
    (re.compile(r"part-[\w.-]+\.parquet"), "data"),
)
_LETTERS = ((re.compile(r"\d{20}\.jsonl"), "file"),)
_BEATS = ((re.compile(r"\d{20}-\d{20}\.json"), "file"),)
_PENDING = ((re.compile(r"[\w-]+/part-[\w.-]+\.parquet"), "part"),)
_LEDGER = (
    (re.compile(r"log/\d{20}\.json"), "entry"),
    (re.compile(r"definitions/\d{8}-[0-9a-f]{32}\.json"), "definitions"),
)
_AREAS = (
    ("_changefeed/ledger/", "ledger", _LEDGER),
    ("_changefeed/dead_letters/", "dead letters", _LETTERS),
    ("_changefeed/heartbeat/", "heartbeat", _BEATS),
    ("_changefeed/pending/", "pending", _PENDING),
    (f"{KEYED}/", "table with a key", _DELTA),
    (f"{KEYLESS}/", "table without a key", _DELTA),
)
_CHECKSUM = re.compile(r"\.[^/]+\.crc")


def role(relative: str) -> str | None:
    """The role of a file of the sink; None if it is unknown."""
    for prefix, area, kinds in _AREAS:
        if relative.startswith(prefix):
            rest = relative.removeprefix(prefix)
            if _CHECKSUM.fullmatch(rest.rpartition("/")[2]):
                return f"{area}: checksum beside a file"
            return next((f"{area}: {kind}" for pattern, kind in kinds if pattern.fullmatch(rest)), None)
    return None


def files(lake: Path) -> Iterator[tuple[str, Path]]:
    """Every file of a sink with its role, oldest first; the role of an unknown one is empty."""
    paths = [path for path in lake.rglob("*") if path.is_file()]
    for path in sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name)):
        yield role(path.relative_to(lake).as_posix()) or "", path


def checksum_of(path: Path) -> Path:
    """The file in which Hadoop keeps the checksums of `path` on a local disk."""
    return path.with_name(f".{path.name}.crc")


def has_other_columns(before: Path, after: Path) -> bool:
    """Whether a data file of a folder has other names of columns than in the folder before."""
    for path in after.rglob("*.parquet"):
        whole = before / path.relative_to(after)
        if path.read_bytes() != whole.read_bytes():
            with suppress(pa.ArrowException, OSError, UnicodeDecodeError):  # a file that cannot be opened
                return bool(parquet.read_schema(path).names != parquet.read_schema(whole).names)
    return False


# Kinds of damage to one file.


def _truncated(path: Path, chance: Random) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flipped(path: Path, chance: Random) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(bytes(data))


def _flipped_without_checksum(path: Path, chance: Random) -> None:
    _flipped(path, chance)
    checksum_of(path).unlink(missing_ok=True)


def _truncated_without_checksum(path: Path, chance: Random) -> None:
    _truncated(path, chance)
    checksum_of(path).unlink(missing_ok=True)


def _deleted(path: Path, chance: Random) -> None:
    path.unlink()
    checksum_of(path).unlink(missing_ok=True)


FILE_DAMAGE: dict[str, Callable[[Path, Random], None]] = {
    "deleted": _deleted,
    "truncated": _truncated,
    "truncated, no checksum": _truncated_without_checksum,
    "bit flipped": _flipped,
    "bit flipped, no checksum": _flipped_without_checksum,
}


# The outcome.

_WAY_OUT = re.compile(r"(?i)\b(run|restore|put|start|delete|remove|change|set|repair|give|use|wait|replay)\b")


def outcome(spark: SparkSession, prepared: Prepared, lake: Path, limit: int = 1000) -> str:
    """Lets the history go on. Returns `right`, `stopped: …`, or a fault that begins with a word in capitals."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    pipeline = prepared.pipeline(lake, limit)
    try:
        run(pipeline, spark, once=True)
    except ChangefeedError as error:
        message = " ".join(f"{error}".split())
        if wrong := _wrong(prepared, pipeline, finished=False, reported=message):
            return f"WRONG, and stopped: {wrong} ({message[:200]})"
        if str(lake) not in message:
            return f"UNNAMED: no path in: {type(error).__name__}: {message[:300]}"
        if not _WAY_OUT.search(message):
            return f"UNNAMED: no way out in: {type(error).__name__}: {message[:300]}"
        return f"stopped: {type(error).__name__}: {message}"
    except Exception as error:
        return f"RAW: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    wrong = _wrong(prepared, pipeline, finished=True)
    return f"SILENT: {wrong}" if wrong else "right"


def stop_when_spark_reads(spark: SparkSession, prepared: Prepared, lake: Path) -> str:
    """`stopped: …` if Spark cannot read a table of the newest cut; empty if it reads all of them."""
    pipeline = prepared.pipeline(lake)
    for current in published(pipeline)[-1].state.tables.values():
        try:
            spark.read.format("delta").option("versionAsOf", current.version).load(f"{lake}/{current.path}").collect()
        except Exception as error:  # of any type that Spark raises
            return f"stopped: {current.path} cannot be read: {' '.join(str(error).split())[:200]}"
    return ""


def _log_reaches(table: Path, version: int | None) -> bool:
    """Whether the log still contains this version. If its first commit is gone, delta-rs reads a smaller table instead."""
    log = table / "_delta_log"
    whole = [int(path.name[:20]) for path in log.glob("*.checkpoint*.parquet")]
    first = max((at for at in whole if version is not None and at <= version), default=0)
    return all((log / f"{at:020}.json").exists() for at in range(first, (version or 0) + 1))


def _read_cuts(prepared: Prepared, pipeline: Definition) -> tuple[list[Published], dict[int, str]]:
    """Reads the cuts with their states, and returns step -> error of those whose states are refused.

    The log has all that a cut is made of, but not the definitions of its tables. An obsolete file of definitions is not
    read by a run, so it may be damaged: the cut is compared all the same, with the definitions of the undamaged sink.
    """
    reader = FileReader(
        folder_to_read(ledger_folder(pipeline), pipeline.storage, pipeline.spark), pipeline.pipeline.name
    )
    head = reader.steady(reader.head)
    entries = reader.steady(lambda: reader.live(head)) if head else []
    cuts, refused = list[Published](), dict[int, str]()
    for entry, sum in entries:
        if entry.status == "done":
            try:
                state = reader.steady(partial(reader.state, entry))
            except ChangefeedError as error:
                refused[entry.step] = f"{error}"
                state = prepared.undamaged(sum)
            cuts.append(Published(entry.epoch, entry.step, state))
    return cuts, refused


def _wrong(prepared: Prepared, pipeline: Definition, *, finished: bool, reported: str = "") -> str:
    """Describes the first fault of the cuts that can be read; after a run that `finished`, the newest one must be readable.

    A table whose path the run's error (`reported`) names may be wrong.
    """
    try:
        cuts, refused = _read_cuts(prepared, pipeline)
    except ChangefeedError as error:
        return f"the ledger cannot be read: {error}" if finished else ""
    if not finished and not cuts:
        return ""
    if finished and cuts[-1].step in refused:
        return f"the newest cut cannot be read: {refused[cuts[-1].step]}"
    for step, message in refused.items():
        if pipeline.sink.path not in message or not _WAY_OUT.search(message):
            return f"step {step} is refused without a path or a way out: {message}"
    for cut in cuts:
        if difference := _difference(prepared, pipeline, cut, newest=finished and cut is cuts[-1], reported=reported):
            return f"step {cut.step} of {cuts[-1].step}: {difference}"
    state = cuts[-1].state
    counts = state.counts
    if finished and (state.barrier, counts.records) != (prepared.mark, prepared.records):
        return f"barrier {state.barrier} for {prepared.mark}, {counts.records} records for {prepared.records}"
    if finished and counts.rows != counts.applied + counts.repeated:
        return f"the counts do not add up: {counts}"
    return ""


def _difference(prepared: Prepared, pipeline: Definition, cut: Published, *, newest: bool, reported: str) -> str:
    """Describes the first difference between a cut's tables and the history; only the `newest` cut must be readable."""
    wanted = prepared.history.at(cut.state.barrier) if cut.state.barrier is not None else {}
    for current in cut.state.tables.values():
        table = Path(pipeline.sink.path, current.path)
        if str(table) in reported or not (newest or _log_reaches(table, current.version)):
            continue
        try:
            actual = rows(table, current.version, current.table)
        except Exception as error:  # of any type that a reader raises
            if newest:
                return f"{current.path} cannot be read: {' '.join(str(error).split())[:120]}"
            continue
        if difference := same_rows(actual, wanted[current.table.name]):
            return f"{current.path}: {difference}"
    return ""
