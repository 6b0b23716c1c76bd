"""After a power cut, the next run ends with the right tables, whatever was on disk.

The sink is on an ext4 file system in an image. At some failpoints a copy of the image is made, which has what the kernel has
written to the disk until then, as the disk would have after a power cut. Before that, some random files are written to disk, as
the kernel does at times of its own, so that a commit may be there without its data, and a name without its bytes. Each copy is
mounted, and a run continues from it.

`CHANGEFEED_POWER_CUTS` sets the number of cuts, `CHANGEFEED_SEED` repeats what was drawn. Needs root, and loop devices.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from changefeed import record_log, telemetry
from changefeed.local_files import sync
from changefeed.model.batch import record_batch
from changefeed.pipeline.config.load import read
from changefeed.pipeline.dead_letters import files_of
from changefeed.pipeline.run import run
from tests.pipeline.kit.history import HistoryBuilder
from tests.pipeline.kit.oracle import History, same_rows
from tests.pipeline.kit.running import check_cuts, published
from tests.pipeline.kit.tables import sink_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changefeed.pipeline.config.definition import Definition

CUTS = int(os.environ.get("CHANGEFEED_POWER_CUTS", "200"))
STEPS = 24
_BYTES = 48 << 20
# Options of the sink, and its share of the cuts: a run by Spark's writer lasts five times as long as others.
WAYS = {
    "copy-on-write": ({"type": "delta", "write-mode": "copy-on-write"}, 0.35),
    "merge-on-read": ({"type": "delta", "write-mode": "merge-on-read"}, 0.35),
    "copy-on-write by Spark": ({"type": "delta", "writer": "spark", "write-mode": "copy-on-write"}, 0.05),
    "merge-on-read by Spark": ({"type": "delta", "writer": "spark", "write-mode": "merge-on-read"}, 0.05),
    "Iceberg": ({"type": "iceberg"}, 0.2),
}


@contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    """Mounts the file system in an image."""
    at.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", image, at], check=True, capture_output=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)


def test_loop_devices(tmp_path: Path) -> None:
    """Shows why the other tests are skipped."""
    _empty_image(tmp_path)


def _empty_image(folder: Path) -> Path:
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(_BYTES)
    try:
        subprocess.run(["mkfs.ext4", "-q", image], check=True, capture_output=True)
        with mounted(image, folder / "first"):
            pass
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system in an image can be mounted: {error}")
    return image


@dataclass
class Cutter:
    """Makes copies of an image at some of the failpoints that a run passes."""

    image: Path
    lake: Path
    draw: random.Random
    share: float
    count: int = 0

    def __call__(self, name: str) -> None:
        if self.draw.random() > self.share:
            return
        for path in self.lake.rglob("*"):
            if self.draw.random() < 0.15:
                with suppress(OSError):
                    sync(str(path))
        self.count += 1
        shutil.copyfile(self.image, self.image.with_name(f"cut-{self.count}-{name}"))


def _history(path: Path) -> tuple[Path, list[int]]:
    """Tables with and without a key, with changed columns; and the commit_ts of the steps."""
    h, marks = HistoryBuilder(), list[int]()
    h.schema("app", "orders", "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`qty` INT,PRIMARY KEY(`id`))")
    h.schema("app", "notes", "CREATE TABLE `app`.`notes` (`n` INT NOT NULL,`note` VARCHAR(20))")
    has_note = False
    for step in range(STEPS):
        more = {"note": None} if has_note else {}
        if step % 3 != 1:
            h.rows(*(("orders", None, {"id": 10 * step + i, "qty": i, **more}) for i in range(4)))
        if step % 3 == 2:
            old = {"id": 10 * (step - 2) + 1, "qty": 1, **more}
            h.rows(("orders", old, {**old, "qty": 7}), ("orders", {"id": 10 * step, "qty": 0, **more}, None))
        if step % 3 != 0:
            h.rows(("notes", None, {"n": step, "note": f"step {step}"}), ("notes", None, {"n": step, "note": "again"}))
        if step == 9:
            h.schema("app", "orders", "ALTER TABLE `app`.`orders` ADD COLUMN `note` VARCHAR(20) NULL")
            has_note = True
        if step == 15:
            h.schema("app", "notes", "TRUNCATE TABLE `app`.`notes`")
        marks.append(h.resolved())
    return h.write(path), marks


def _with_dead_letters(clean: Path, log: Path) -> int:
    """Adds records that cannot be decoded to a log, and returns their number."""
    records: list[dict[str, Any]] = []
    for number, record in enumerate(row for batch in record_log.read(clean) for row in batch.to_pylist()):
        records += [{**record, "key": b"\0", "value": b"\0"}] if number % 20 == 7 else []
        records.append(record)
    offsets: dict[int, int] = {}
    for record in records:
        record["offset"] = offsets[record["partition"]] = offsets.get(record["partition"], -1) + 1
    record_log.write(log, [record_batch(records)])
    return sum(record["value"] == b"\0" for record in records)


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("way", WAYS)
def test_the_run_after_a_power_cut_ends_with_the_right_tables(
    way: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, share = WAYS[way]
    _cut(spark, sink, round(CUTS * share), tmp_path, monkeypatch)


@pytest.mark.spark
@pytest.mark.heavy
def test_a_few_power_cuts(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, _ = WAYS[random.choice(["copy-on-write", "merge-on-read", "Iceberg"])]
    _cut(spark, sink, 5, tmp_path, monkeypatch)


def _cut(spark: SparkSession, sink: dict[str, str], cuts: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = int(os.environ.get("CHANGEFEED_SEED") or random.randrange(2**32))
    print("CHANGEFEED_SEED:", seed, sink)
    clean, marks = _history(folder / "clean.jsonl")
    log = folder / "app.jsonl"
    dead = _with_dead_letters(clean, log)
    image = _empty_image(folder)
    with mounted(image, folder / "disk") as disk:
        first = _pipeline(log, disk / "lake", sink)
        cutter = Cutter(image, disk / "lake", random.Random(seed), cuts / (STEPS * 12))
        monkeypatch.setattr(telemetry, "on_pass", cutter)
        for mark in marks:
            run(first, spark, once=True, until=mark)
        monkeypatch.undo()
    history = History(clean)
    images = sorted(folder.glob("cut-*"))
    assert len(images) > cuts // 8
    for number, copy in enumerate(images):
        # Spark keeps its state of a Delta table by path; Iceberg's metadata has absolute paths
        with mounted(copy, folder / ("disk" if sink["type"] == "iceberg" else f"after-{number}")) as disk:
            after = _pipeline(log, disk / "lake", sink)
            run(after, spark, once=True)
            _check(after, history, f"seed {seed}, {copy.name}")
            assert len(files_of(after).rows()) == dead
        copy.unlink()


def _pipeline(log: Path, lake: Path, sink: dict[str, str]) -> Definition:
    lake.mkdir(exist_ok=True)
    return read(
        {
            "source": {"type": "files", "path": str(log), "protocol": "ticdc-open", "max-records-per-batch": 1000},
            "sink": {**sink, "path": str(lake)},
            "pipeline": {
                "name": "test",
                "parallelism": 1,
                "dead-letters": "continue",
            },  # one: nothing writes beside a copy
        }
    )


def _check(pipeline: Definition, history: History, where: str) -> None:
    """Asserts that the newest tables, and those of the cuts that can be read, are the history's."""
    state = published(pipeline)[-1].state
    wanted = history.at(state.barrier)
    assert sorted(t.table.name for t in state.tables.values()) == sorted(wanted), where
    for table in state.tables.values():
        actual = sink_rows(pipeline, table.path, None, table.table)
        assert not (difference := same_rows(actual, wanted[table.table.name])), f"{where}: {table.path}: {difference}"
    check_cuts(pipeline, history)
