"""Names of the files in a table's log."""

from __future__ import annotations

import pytest

from changefeed.sinks.delta.log_names import checkpoint_version, commit_name, commit_version


@pytest.mark.parametrize(
    "name, commit, checkpoint",
    [
        (commit_name(11), 11, None),
        ("00000000000000000010.checkpoint.parquet", None, (10, 1)),
        ("00000000000000000010.checkpoint.0000000002.0000000003.parquet", None, (10, 3)),
        ("00000000000000000010.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet", None, (10, None)),
        ("00000000000000000010.crc", None, None),
        (".00000000000000000011.json.crc", None, None),
        ("00000000000000000011.json.tmp", None, None),
        ("11.json", None, None),
        ("_last_checkpoint", None, None),
    ],
)
def test_a_name_is_that_of_a_commit_of_a_checkpoint_or_of_neither(
    name: str, commit: int | None, checkpoint: tuple[int, int | None] | None
) -> None:
    assert (commit_version(name), checkpoint_version(name)) == (commit, checkpoint)
