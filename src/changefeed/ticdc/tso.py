"""TiDB's timestamps: unsigned 64 bits, Unix milliseconds << 18 | a counter within the millisecond.

They exceed 2^53, so they must be read as integers, never as doubles.
"""

from __future__ import annotations

LOGICAL_BITS = 18
LIMIT = 2**64


def milliseconds(ts: int) -> int:
    """Returns the time of a TiDB timestamp, in milliseconds since 1970."""
    return ts >> LOGICAL_BITS


def at(unix_ms: int) -> int:
    """Returns the lowest TiDB timestamp of a millisecond."""
    return unix_ms << LOGICAL_BITS
