"""After any damage to a file of the sink, the tables are right in the end, or the run stops with a path and a way out.

Every kind of file that a pipeline writes is damaged, between two steps and in a begun one; then the history goes on.
Right means: every cut that can be read is the history's state at its commit_ts, and the newest one can be read. A stop is
a `ChangefeedError` that names the path and a way out. No fault is silent, and no error is Spark's or Python's own. A file
that no run reads any more may be damaged without a stop: obsolete definitions in the ledger. A read of them is refused in the
same way, and the tables of their cuts are right.

`-m nightly` tries every case; otherwise a few are drawn. `CHANGEFEED_SEED` repeats what was drawn.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.kit.storage import (
    Prepared,
    files,
    has_other_columns,
    outcome,
    prepare,
    stop_when_spark_reads,
)
from tests.pipeline.kit.storage_cases import CASES, PICKS, ROLES, Case, NotThereError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRAWN = int(os.environ.get("CHANGEFEED_STORAGE_FAULTS", "3"))
# No damage: the tables must be right.
HARMLESS = ("nothing", "the whole sink: an older copy put back", "compacted", "a checkpoint written by another writer")
# A run does not see a flipped bit in a file that it does not read. Readers see it: one fails at the file's structure, or Spark
# does by the checksums of pages. Parquet's footers have none: with another name of a column there, all readers take it as NULL.
_FLIPPED = tuple(
    f": {kind} ({pick}) bit flipped{more}"
    for kind in ("data", "checkpoint")
    for pick in PICKS
    for more in ("", ", no checksum")
)


@pytest.fixture(scope="module")
def prepared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(spark, tmp_path_factory.mktemp("storage"))


@pytest.mark.heavy
def test_every_file_has_a_role_and_every_role_has_files(prepared: Prepared) -> None:
    roles = {state: list(files(prepared.folder / state)) for state in ("early", "between", "begun")}
    unknown = [str(path) for state in roles.values() for role, path in state if not role]
    assert not unknown, f"files without a role: {unknown}"
    assert {role for state in roles.values() for role, _ in state} == set(ROLES)


def _reported(spark: SparkSession, prepared: Prepared, case: Case, lake: Path) -> str:
    """The outcome of a run; of a flipped bit that it does not see, that of a reader that does."""
    result = outcome(spark, prepared, lake)
    is_unseen = case.damage.name.startswith("table") and case.damage.name.endswith(_FLIPPED)
    if not (is_unseen and result.startswith("SILENT")):
        return result
    if " cannot be read: " in result:
        return result.replace("SILENT: ", "stopped: reader: ", 1)
    return stop_when_spark_reads(spark, prepared, lake) or result


def _judge(spark: SparkSession, prepared: Prepared, case: Case, seed: int, folder: Path) -> None:
    lake = folder / "lake"
    prepared.copy(case.moment, lake)
    try:
        case.damage.act(prepared, lake, random.Random(seed))
    except NotThereError as error:
        pytest.skip(f"no {error} in this state")
    is_renamed = case.damage.name.endswith(_FLIPPED) and has_other_columns(prepared.folder / case.moment, lake)
    result = _reported(spark, prepared, case, lake)
    print("seed", seed, "|", case.name, "|", result.replace(str(folder), ""))
    if is_renamed and result.startswith("SILENT"):
        return
    assert result == "right" or result.startswith("stopped: "), f"{case.name}, seed {seed}: {result}"
    if result != "right":  # the next run stops as well, or the tables are right
        again = _reported(spark, prepared, case, lake)
        is_reported = again == "right" or again.startswith("stopped: ") or result.startswith("stopped: reader: ")
        assert is_reported, f"{case.name}, seed {seed}, run again: {again}"
    if case.damage.name.endswith(HARMLESS):
        assert result == "right", f"{case.name}: this should not stop the run: {result}"


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_damage_stops_the_run_or_does_no_harm(
    spark: SparkSession, prepared: Prepared, case: Case, tmp_path: Path
) -> None:
    _judge(spark, prepared, case, _seed(), tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize("number", range(DRAWN))
def test_damage_drawn(number: int, spark: SparkSession, prepared: Prepared, tmp_path: Path) -> None:
    seed = _seed() + number
    _judge(spark, prepared, random.Random(seed).choice(CASES), seed, tmp_path)


@pytest.mark.heavy
def test_definitions_that_no_run_reads_may_be_damaged(spark: SparkSession, prepared: Prepared, tmp_path: Path) -> None:
    name = "between: ledger: definitions (oldest) truncated, no checksum"
    _judge(spark, prepared, next(case for case in CASES if case.name == name), 1, tmp_path)


def _seed() -> int:
    fresh = 1 if os.environ.get("CI") else random.randrange(2**32)  # in CI a failure is due to the change alone
    return int(os.environ.get("CHANGEFEED_SEED") or fresh)
