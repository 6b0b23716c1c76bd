"""Values of `--until`."""

from __future__ import annotations

import click
import pytest

from changefeed.api.moments import moment_of
from changefeed.cli.moment import moment, time_of

_CTX, _PARAM = click.Context(click.Command("run")), click.Option(["--until"])
MILLISECOND = 1767227195352  # 2026-01-01T00:26:35.352Z


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T00:26:35.352Z",
        "2026-01-01T00:26:35.352",
        "2026-01-01 08:26:35.352+08:00",
        "2026-01-01T00:26:35.352999",
    ],
)
def test_a_time_is_the_last_commit_of_its_millisecond(text: str) -> None:
    assert moment(_CTX, _PARAM, text) == text
    commit_ts = moment_of(text)
    assert isinstance(commit_ts, int)
    assert commit_ts == (MILLISECOND << 18) | (2**18 - 1)
    assert time_of(commit_ts) == "2026-01-01T00:26:35.352Z"


def test_digits_are_a_commit_ts_verbatim() -> None:
    assert moment_of("463268005898553859") == 463268005898553859
    assert moment(_CTX, _PARAM, None) is None


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "yesterday",
            "'yesterday' is neither a commit_ts (digits), nor an ISO time such as 2026-03-01T12:00:00Z, nor a GTID, nor a place "
            "in the binlog such as 000001:14624",
        ),
        ("0", "0 is not a commit_ts: it does not fit into 63 bits"),
        ("9223372036854775808", "9223372036854775808 is not a commit_ts: it does not fit into 63 bits"),
        ("1969-12-31", "1969-12-31 is before 1970"),
    ],
)
def test_anything_else_is_refused(text: str, message: str) -> None:
    with pytest.raises(click.BadParameter) as error:
        moment(_CTX, _PARAM, text)
    assert error.value.message == message


def test_a_number_that_cannot_be_a_tso_has_no_time() -> None:
    assert (time_of(None), time_of(12), time_of(2**63 - 1)) == (None, None, None)
