"""Escapes column names for table formats that do not have all characters in them.

    upstream    escaped
    unit price  unit~20price
    a,b=c       a~2Cb~3Dc
    tax~2       tax~2           `~` alone begins no escape …
    tax~20      tax~7E20        … but what looks like one is escaped itself, so that no two names become the same

`~XX` stands for a byte, as in the folders of tables.
"""

from __future__ import annotations

import re

# Delta and Parquet have them in names with column mapping alone.
NOT_IN_NAMES = " ,;{}()\n\t="
_ESCAPED = re.compile(rf"[{re.escape(NOT_IN_NAMES)}]|~(?=[0-9A-F]{{2}})")
_ESCAPE = re.compile("~([0-9A-F]{2})")


def escaped(name: str) -> str:
    """Returns the name without characters of `NOT_IN_NAMES`; an ordinary name stays as it is."""
    return _ESCAPED.sub(lambda match: f"~{ord(match[0]):02X}", name)


def original(name: str) -> str:
    """Returns the name that is escaped to this one; the name itself if it has no escapes."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), name)
