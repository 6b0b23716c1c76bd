"""What a run would do, said before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from changefeed.errors import UnsupportedError
from changefeed.pipeline.operations.explain import explain
from tests.pipeline.history import HistoryBuilder, small_history
from tests.pipeline.running import definition


@pytest.mark.parametrize(
    "consistency, guarantee",
    [
        ("transaction", "TiCDC Open Protocol sends at least once; each change is applied once"),
        ("key", "TiCDC Open Protocol sends at least once; what it sends again is applied again"),
    ],
)
def test_no_more_is_promised_than_the_consistency_holds(tmp_path: Path, consistency: str, guarantee: str) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    assert explain(definition(log, tmp_path / "lake", consistency=consistency))["guarantee"] == guarantee


def test_a_table_that_the_sink_cannot_have_is_refused(tmp_path: Path) -> None:
    history = HistoryBuilder()
    history.schema("app", "t", "CREATE TABLE `app`.`t` (`id` INT PRIMARY KEY, `unit price` INT)")
    log = history.write(tmp_path / "app.jsonl")
    with pytest.raises(UnsupportedError) as error:
        explain(definition(log, tmp_path / "lake"))
    assert str(error.value) == (
        "app.t: column 'unit price': plain Delta tables have no ' ' in names of columns. Rename it upstream, "
        "or name the table in pipeline.exclude"
    )
