r"""Paths of tables below the sink's path: `<database>/<table>`, with names that every reader takes for a folder.

An ordinary name is used as it is. In others `~XX` stands for a byte of UTF-8, as `~2F` for `/`: `%2F` would be decoded by
readers that take every path for a URL. These characters are escaped:

    anywhere            / \ % ~ : * ? # " < > | ` ^ special in URLs and file systems
                        [ ] { } = and spaces        patterns, and folders of partitions (`day=1`)
                        all but printable ASCII     control characters; letters that polars requests by their URL
    at the beginning    .                           hidden files
    at the end          .                           dropped by some file systems
    in certain names    the `_` at the beginning    `_delta_log` and other folders of Delta, Spark or Hadoop

Rule 1. Other names may begin with `_`: that hides a file in a table, not the table itself, which is opened by its path.
Rule 2. A name that is longer than 200 bytes when it is escaped ends with `~~` and 16 hexadecimal digits of its SHA-256 in
        place of its rest: file systems take 255 bytes. No escape has two `~` in a row.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_ESCAPED = frozenset('/\\%~:*?#"<>|[]{}=`^ ')
_FOLDERS = frozenset(
    {
        "_delta_log", "_change_data", "_delta_index", "_symlink_format_manifest", "_last_checkpoint", "_spark_metadata",
        "_temporary", "_success", "_metadata", "_common_metadata", "_changefeed",
    }
)  # fmt: skip
_ESCAPE = re.compile(rb"~([0-9A-F]{2})")
_MAX_BYTES, _KEPT_BYTES = 200, 180


def table_path(database: str, table: str) -> str:
    """The table's folder, relative to the sink's path."""
    return f"{_folder(database)}/{_folder(table)}"


def names_in(path: str) -> tuple[str, str] | None:
    """The database and the table whose path this is; None if one of their names was shortened."""
    database, table = (_original(folder) for folder in path.split("/", 1))
    return None if database is None or table is None else (database, table)


def folders_of(paths: Iterable[str]) -> list[str]:
    """The folders that tables at these paths lie in: the sink's own (empty) and those of databases."""
    return sorted({"", *(path.partition("/")[0] for path in paths)})


def _folder(name: str) -> str:
    last = len(name) - 1
    hidden = name.lower() in _FOLDERS
    pieces = [
        _bytes(c) if c in _ESCAPED or not " " <= c <= "~" or (n in (0, last) and c == ".") or (n == 0 and hidden) else c
        for n, c in enumerate(name)
    ]
    folder = "".join(pieces)
    if name and len(folder.encode()) <= _MAX_BYTES:
        return folder
    return _beginning(pieces) + "~~" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _original(folder: str) -> str | None:
    if "~~" in folder:
        return None
    escaped = folder.encode()
    return _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), escaped).decode("utf-8", "surrogatepass")


def _bytes(char: str) -> str:
    return "".join(f"~{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _beginning(pieces: list[str]) -> str:
    prefix, size = "", 0
    for piece in pieces:
        size += len(piece.encode())
        if size > _KEPT_BYTES:
            break
        prefix += piece
    return prefix
