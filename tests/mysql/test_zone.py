"""Local times: the producer's zone, its gaps and its repeats."""

from __future__ import annotations

import pytest

from changefeed.errors import ConfigError
from changefeed.model.values import read_datetime, write_datetime
from changefeed.mysql.zone import to_local, to_utc, zone


@pytest.mark.parametrize(
    "name, local, utc",
    [
        ("UTC", "2026-01-01 00:00:00", "2026-01-01 00:00:00"),
        ("Asia/Shanghai", "2026-01-01 08:00:00", "2026-01-01 00:00:00"),
        ("+08:00", "2026-01-01 08:00:00", "2026-01-01 00:00:00"),
        ("-03:30", "2026-01-01 00:00:00", "2026-01-01 03:30:00"),
        ("Europe/Berlin", "2026-03-29 02:30:00", None),  # the clocks skip it
        ("Europe/Berlin", "2026-10-25 02:30:00", "2026-10-25 00:30:00"),  # they show it twice
        ("Europe/Berlin", "2026-10-25 03:00:00", "2026-10-25 02:00:00"),
        ("Asia/Shanghai", "0001-01-01 00:00:00", None),
    ],
)
def test_local_times_become_utc(name: str, local: str, utc: str | None) -> None:
    us = to_utc(read_datetime(local)[0], zone(name))
    assert (us if us is None else write_datetime(us, 0)) == utc
    if us is not None:
        assert write_datetime(to_local(us, zone(name)), 0) == local


@pytest.mark.parametrize("name", ["Asia/Nowhere", "+25:00", "../etc/passwd", ""])
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        zone(name)
    assert str(caught.value) == (
        f'time-zone "{name}" is unknown: expected a name as Asia/Shanghai or an offset as +08:00'
    )
