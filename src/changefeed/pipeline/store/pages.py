"""Pages: the cuts of many steps in one file, after their entries have left the log.

    history/<first step>-<last step>.json      body: {"ledger": id, "before": checksum, "cuts": base64(gzip(JSON))}

A cut in a page contains only the differences from the cut before it in the same page; the first is complete. A page is made
of entries that never change, so every writer makes the same page. It has the checksum of the page before it, and the log's
newest entry has that of the newest page, so a page from another time is detected.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from changefeed.pipeline.state import Counts
from changefeed.pipeline.store.base import Cut, Pinned, damaged
from changefeed.pipeline.store.entries import decoded, opened, sealed

HISTORY = "history"
_NAME = re.compile(r"(\d{12,})-(\d{12,})\.json")


@dataclass(frozen=True, slots=True, order=True)
class Page:
    """The range of steps of one page."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """The name of the page's file, relative to the ledger's folder."""
        return f"{HISTORY}/{self.first:012d}-{self.last:012d}.json"


def pages_of(names: Sequence[str]) -> list[Page]:
    """Returns the pages among the files of the folder, oldest first."""
    matches = [match for name in names if (match := _NAME.fullmatch(name))]
    return sorted(Page(int(match[1]), int(match[2])) for match in matches)


class _Table(msgspec.Struct, frozen=True, array_like=True):
    path: str
    version: int | None
    held: bool


class _Cut(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    step: int
    at: datetime
    commit_ts: int | None
    mark: str | None
    tables: dict[str, _Table]  # those that differ from the cut before
    gone: list[str]  # those that the cut before has, and this one not
    counts: Counts
    wrote: tuple[str, ...]
    time: int | None = None  # earlier versions do not write it


class _Body(msgspec.Struct, frozen=True):
    ledger: str
    before: str
    cuts: str


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a page: the cuts, oldest first, the page's checksum, and that of the page before it."""

    cuts: list[Cut]
    sum: str
    before: str


def page_file(id: str, before: str, cuts: Sequence[Cut]) -> bytes:
    """Returns the bytes of a page's file."""
    text = msgspec.json.encode(list(_differences(cuts)))
    packed = base64.b64encode(gzip.compress(text, 6, mtime=0)).decode()
    return sealed(msgspec.json.encode(_Body(id, before, packed)))


def content_of(data: bytes, id: str, page: Page, ledger: str) -> Content:
    """Decodes a page's file.

    Raises:
        ConfigError: the file is in a newer format.
        SinkError: the file is damaged, or belongs to another ledger.
    """
    text, sum = opened(data, ledger, page.name)
    body = decoded(text, _Body, ledger, page.name)
    if body.ledger != id:
        raise damaged(ledger, f"{page.name} is a page of another ledger")
    try:
        text = gzip.decompress(base64.b64decode(body.cuts, validate=True))
    except (binascii.Error, OSError, EOFError, zlib.error) as error:
        raise damaged(ledger, f"{page.name} cannot be read: {error}") from error
    cuts = list(_whole(decoded(text, list[_Cut], ledger, page.name)))
    if [cut.step for cut in cuts] != list(range(page.first, page.last + 1)):
        raise damaged(ledger, f"{page.name} has other steps than its name shows")
    return Content(cuts, sum, body.before)


def _differences(cuts: Sequence[Cut]) -> Iterator[_Cut]:
    before: dict[str, Pinned] = {}
    for cut in cuts:
        tables = {n: _Table(t.path, t.version, t.held) for n, t in cut.tables.items() if before.get(n) != t}
        gone = [name for name in before if name not in cut.tables]
        yield _Cut(cut.epoch, cut.step, cut.at, cut.commit_ts, cut.mark, tables, gone, cut.counts, cut.wrote, cut.time)
        before = dict(cut.tables)


def _whole(cuts: list[_Cut]) -> Iterator[Cut]:
    tables: dict[str, Pinned] = {}
    for cut in cuts:
        changed = {name: Pinned(t.path, t.version, t.held) for name, t in cut.tables.items()}
        tables = {name: table for name, table in (tables | changed).items() if name not in cut.gone}
        yield Cut(cut.epoch, cut.step, cut.at, cut.commit_ts, cut.mark, tables, cut.counts, cut.wrote, cut.time)
