"""Dates and times of row images to canonical text. Zero dates and impossible ones, such as 2024-02-00, keep their fields.

    DATE          3 bytes, little-endian       year << 9 | month << 5 | day
    TIME2(f)      3 bytes + fraction           CLOCK + 2^23, as one number with the fraction
    DATETIME2(f)  5 bytes + fraction           2^39 + (year * 13 + month) << 22 | day << 17 | CLOCK
    TIMESTAMP2(f) 4 bytes + fraction           seconds since 1970
    CLOCK                                      hours << 12 | minutes << 6 | seconds
    TIME, DATETIME, TIMESTAMP                  before MySQL 5.6: the digits HHMMSS, YYYYMMDDHHMMSS; seconds since 1970
    fraction      0, 1, 1, 2, 2, 3, 3 bytes    for f = 0 to 6, big-endian: hundredths, ten-thousandths, millionths

A TIMESTAMP of 0 seconds is the zero timestamp: `0000-00-00 00:00:00`, without the `Z` of an instant.
"""

from __future__ import annotations

from changefeed.errors import ProtocolError
from changefeed.model.values import write_instant
from changefeed.mysql.binlog.cursor import EventCursor

MOST_DIGITS = 6


def read_date(cursor: EventCursor) -> str:
    """Reads three bytes: `2026-01-02`."""
    packed = cursor.uint(3)
    return _date(packed >> 9, packed >> 5 & 15, packed & 31)


def read_old_time(cursor: EventCursor) -> str:
    """Reads a TIME from before MySQL 5.6."""
    number = int.from_bytes(cursor.take(3), "little", signed=True)
    return ("-" if number < 0 else "") + _clock(*_sixties(abs(number)), cursor)


def read_old_datetime(cursor: EventCursor) -> str:
    """Reads a DATETIME from before MySQL 5.6."""
    days, clock = divmod(cursor.uint(8), 1_000_000)
    if days > 9999_12_31:
        raise _bad(f"{days} is not a date", cursor)
    return f"{_date(days // 10_000, days // 100 % 100, days % 100)} {_clock(*_sixties(clock), cursor)}"


def read_old_timestamp(cursor: EventCursor) -> str:
    """Reads a TIMESTAMP from before MySQL 5.6."""
    return _instant(cursor.uint(4), 0, 0)


def read_time(cursor: EventCursor, digits: int) -> str:
    """Reads three bytes and the fraction: `-838:59:59.000`."""
    width = (digits + 1) // 2
    packed = int.from_bytes(cursor.take(3 + width), "big") - (1 << (23 + 8 * width))
    whole, fraction = divmod(abs(packed), 1 << 8 * width)
    return ("-" if packed < 0 else "") + _packed_clock(whole, cursor) + _fraction(fraction, digits, cursor)


def read_datetime(cursor: EventCursor, digits: int) -> str:
    """Reads five bytes and the fraction: `2026-01-02 03:04:05.100`."""
    packed = int.from_bytes(cursor.take(5), "big") - (1 << 39)
    if packed < 0:
        raise _bad("a DATETIME is negative", cursor)
    year, month = divmod(packed >> 22, 13)
    return f"{_date(year, month, packed >> 17 & 31)} {_packed_clock(packed & 0x1FFFF, cursor)}" + _fraction(
        _raw_fraction(cursor, digits), digits, cursor
    )


def read_timestamp(cursor: EventCursor, digits: int) -> str:
    """Reads four bytes and the fraction: `2026-01-02T03:04:05.100Z`."""
    seconds = int.from_bytes(cursor.take(4), "big")
    fraction = _fraction(_raw_fraction(cursor, digits), digits, cursor)
    return _instant(seconds, int(fraction[1:].ljust(6, "0") or 0), digits)


def packed_datetime(packed: int) -> str:
    """The text of a DATETIME(6) in JSON: the 5 bytes of DATETIME2 without 2^39, and the fraction in 3.

    Raises:
        ProtocolError: the fields are not those of a date and time.
    """
    moment, micros = divmod(packed, 1 << 24)
    year, month = divmod(moment >> 22, 13)
    if packed < 0 or year > 9999:
        raise ProtocolError(f"{packed} is not a date and time", reason="bad-moment")
    return f"{_date(year, month, moment >> 17 & 31)} {_packed_micros(moment & 0x1FFFF, micros)}"


def packed_time(packed: int) -> str:
    """The text of a TIME(6) in JSON. Raises as `packed_datetime`."""
    return ("-" if packed < 0 else "") + _packed_micros(*divmod(abs(packed), 1 << 24))


def _packed_micros(clock: int, micros: int) -> str:
    hours, minutes, seconds = clock >> 12, clock >> 6 & 63, clock & 63
    if hours > 838 or minutes > 59 or seconds > 59 or micros > 999_999:
        raise ProtocolError(f"{hours:02}:{minutes:02}:{seconds:02}.{micros:06} is not a time", reason="bad-moment")
    return f"{hours:02}:{minutes:02}:{seconds:02}.{micros:06}"


def _date(year: int, month: int, day: int) -> str:
    return f"{year:04}-{month:02}-{day:02}"


def _instant(seconds: int, micros: int, digits: int) -> str:
    if seconds == 0 and micros == 0:
        return "0000-00-00 00:00:00" + (f".{'0' * digits}" if digits else "")
    return write_instant(seconds * 1_000_000 + micros, digits)


def _sixties(number: int) -> tuple[int, int, int]:
    return number // 10_000, number // 100 % 100, number % 100


def _packed_clock(packed: int, cursor: EventCursor) -> str:
    return _clock(packed >> 12, packed >> 6 & 63, packed & 63, cursor)


def _clock(hours: int, minutes: int, seconds: int, cursor: EventCursor) -> str:
    if minutes > 59 or seconds > 59 or hours > 838:
        raise _bad(f"{hours:02}:{minutes:02}:{seconds:02} is not a time", cursor)
    return f"{hours:02}:{minutes:02}:{seconds:02}"


def _raw_fraction(cursor: EventCursor, digits: int) -> int:
    return int.from_bytes(cursor.take((digits + 1) // 2), "big")


def _fraction(number: int, digits: int, cursor: EventCursor) -> str:
    """`.100` for the stored number, which has an even count of digits; `` without digits."""
    if not digits:
        return ""
    width = digits + digits % 2
    if number >= 10**width:
        raise _bad(f"{number} is not a fraction of {width} digits", cursor)
    return f".{number:0{width}}"[: digits + 1]


def _bad(message: str, cursor: EventCursor) -> ProtocolError:
    return ProtocolError(message, reason="bad-moment", byte=cursor.at)
