"""Reads a ledger of files (`files.py` has its rules) without Spark, also while a run writes to it.

A run may pack and delete files during a read. So if a file is missing, the read is repeated with a new listing; the file
counts as missing only if the ledger has not changed since.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TypeVar

from changefeed.errors import SinkError
from changefeed.model.definition import Table
from changefeed.pipeline.planning.actions import Plan
from changefeed.pipeline.state import State
from changefeed.pipeline.store.base import Cut, Latest, StoreReader, damaged, foreign, owner_of
from changefeed.pipeline.store.entries import (
    LedgerEntry,
    PackedState,
    Ref,
    cut_in,
    decoded,
    opened,
    unpack_plan,
    unpack_state,
)
from changefeed.pipeline.store.folder import LedgerFolder
from changefeed.pipeline.store.pages import HISTORY, Content, Page, content_of, pages_of
from changefeed.sinks.ways_out import REBUILD_ALL

LOG, DEFINITIONS = "log", "definitions"
_NAME = re.compile(r"(\d{20})\.json")
_AT_ONCE = 8  # entries that are read at the same time
_T = TypeVar("_T")

Sealed = tuple[LedgerEntry, str]  # an entry and its checksum


class MissingError(Exception):
    """A file of the ledger is missing: it has just been packed, or the ledger is damaged."""


def entry_name(number: int) -> str:
    """Returns the name of an entry's file, relative to the ledger's folder."""
    return f"{LOG}/{number:020d}.json"


@dataclass(frozen=True, slots=True)
class FileReader(StoreReader):
    """Reads a ledger of files.

    Attributes:
        folder: the ledger's folder.
        pipeline: the pipeline to which the ledger must belong.
    """

    folder: LedgerFolder
    pipeline: str

    def latest(self) -> Latest | None:
        """See `StoreReader`."""
        return self.steady(self._latest)

    def history(self, after: int = 0, *, newest_first: bool = False) -> Iterator[Cut]:
        """See `StoreReader`."""
        last_step: int | None = None  # the step of the last cut that was given
        failed: tuple[int, str] | None = None
        while True:
            head: Sealed | None = None
            try:
                head = self.head()
                if head is None:
                    return
                walk = self._back(head, after, last_step) if newest_first else self._forth(head, last_step or after)
                for cut in walk:
                    yield cut
                    last_step = cut.step
            except MissingError as error:
                failed = self._check_missing(error, failed, head)
            else:
                return

    # What `files.py` reads by, too.

    def steady(self, read: Callable[[], _T]) -> _T:
        """Returns the result of `read`; calls it again if an entry was packed in the meantime."""
        failed: tuple[int, str] | None = None
        while True:
            try:
                return read()
            except MissingError as error:
                failed = self._check_missing(error, failed, None)

    def numbers(self) -> list[int]:
        """Returns the numbers of the existing entries, in ascending order."""
        return sorted(int(match[1]) for name in self.folder.names(LOG) if (match := _NAME.fullmatch(name)))

    def head(self) -> Sealed | None:
        """Returns the newest entry; None if there is no ledger.

        Raises:
            MissingError: an entry is missing.
        """
        numbers = self.numbers()
        if not numbers:
            self._check_nothing()
            return None
        entry, sum = self.entry(numbers[-1])
        if entry.pipeline != self.pipeline:
            raise foreign(self.folder.path)
        if missing := set(range(entry.base + 1, entry.number)).difference(numbers):
            raise MissingError(entry_name(min(missing)))
        return entry, sum

    def live(self, head: Sealed) -> list[Sealed]:
        """Returns the entries that are not packed, oldest first, each checked against the checksum in the next one."""
        newest = head[0]
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="ledger") as pool:  # each read may be a request
            entries = [*pool.map(self.entry, range(newest.base + 1, newest.number)), head]
        for (entry, sum), (behind, _) in pairwise(entries):
            self._check_sum(entry.number, sum, behind.before)
        return entries

    def before(self, head: Sealed) -> Iterator[Sealed]:
        """Yields the entries before the newest one that are not packed, newest first."""
        entry = head[0]
        for number in range(entry.number - 1, head[0].base, -1):
            sealed_entry = self.entry(number, entry.before)
            yield sealed_entry
            entry = sealed_entry[0]

    def entry(self, number: int, sum: str | None = None) -> Sealed:
        """Returns an entry; `sum` is its checksum according to another entry.

        Raises:
            MissingError: the entry is missing.
        """
        name, path = entry_name(number), self.folder.path
        body, own_sum = opened(self._bytes(name), path, name)
        entry = decoded(body, LedgerEntry, path, name)
        if entry.number != number:
            raise damaged(path, f"{name} contains entry {entry.number}")
        if sum is not None:
            self._check_sum(number, own_sum, sum)
        return entry, own_sum

    def _check_sum(self, number: int, own_sum: str, sum: str) -> None:
        if own_sum != sum:
            name = entry_name(number)
            raise damaged(
                self.folder.path, f"{name} is not the one that later entries name: was an older copy put back?"
            )

    def entry_at(self, ref: Ref) -> Sealed:
        """Returns the entry to which another one refers."""
        return self.entry(ref.number, ref.sum)

    def state(self, entry: LedgerEntry) -> State:
        """Returns the state of an entry that has one."""
        name = entry_name(entry.number)
        packed = decoded(entry.state, PackedState, self.folder.path, name)
        tables = self._tables(entry.definitions)
        return self._complete(entry, lambda: unpack_state(packed, tables))

    def plan(self, entry: LedgerEntry) -> Plan:
        """Returns the plan of an entry that has one."""
        tables = self._tables(entry.definitions)
        name = entry_name(entry.number)
        return self._complete(entry, lambda: unpack_plan(entry.plan, tables, self.folder.path, name))

    def cut(self, entry: LedgerEntry) -> Cut:
        """Returns the cut of an entry that has a state."""
        return cut_in(entry, self.folder.path, entry_name(entry.number))

    def page(self, page: Page, id: str, sum: str | None = None) -> Content:
        """Returns a page; `sum` is its checksum according to the next page or entry.

        Raises:
            MissingError: the page is missing.
        """
        content = content_of(self._bytes(page.name), id, page, self.folder.path)
        if sum is not None and content.sum != sum:
            raise damaged(self.folder.path, f"{page.name} is not the one that was written: was an older copy put back?")
        return content

    def pages(self) -> list[Page]:
        """Returns the existing pages, oldest first."""
        return pages_of(self.folder.names(HISTORY))

    def texts(self, name: str) -> bytes:
        """Returns the JSON of the definitions in a file.

        Raises:
            MissingError: the file is missing.
        """
        name = f"{DEFINITIONS}/{name}"
        return opened(self._bytes(name), self.folder.path, name)[0]

    def _latest(self) -> Latest | None:
        head = self.head()
        if head is None:
            return None
        newest, _ = head
        done = newest if newest.status == "done" else self.entry_at(newest.done)[0] if newest.done else None
        begun = newest if newest.status == "begun" else self.entry_at(newest.begun)[0] if newest.begun else None
        return Latest(
            owner_of(newest.pipeline, newest.id),
            newest.epoch,
            done.step if done else 0,
            done.at if done else None,
            self.state(done) if done else State(),
            self.plan(begun) if begun else None,
        )

    def _forth(self, head: Sealed, after: int) -> Iterator[Cut]:
        newest, _ = head
        live = [self.cut(entry) for entry, _ in self.live(head) if entry.status == "done"]
        for content in self._checked(newest, self._needed(newest, after)):
            yield from (cut for cut in content.cuts if cut.step > after)
        yield from (cut for cut in live if cut.step > after)

    def _checked(self, newest: LedgerEntry, pages: list[Page]) -> Iterator[Content]:
        """Yields the pages, newest first, each checked against the checksum in the page or entry after it."""
        read: Content | None = None
        for page in pages:
            before, read = read, self.page(page, newest.id, newest.page if page is pages[-1] else None)
            if before is not None:
                if before.sum != read.before:
                    raise damaged(self.folder.path, f"{HISTORY} has a page from another time, before {page.name}")
                yield before
        if read is not None:
            yield read

    def _back(self, head: Sealed, after: int, below: int | None) -> Iterator[Cut]:
        def is_between(step: int) -> bool:
            return after < step and (below is None or step < below)

        newest, _ = head
        if below is None or below > newest.packed + 1:
            for entry, _ in chain([head], self.before(head)):
                if entry.status == "done" and is_between(entry.step):
                    yield self.cut(entry)
                if entry.status == "done" and entry.step <= after:
                    return
        sum = newest.page
        for page in reversed(self._needed(newest, after)):
            content = self.page(page, newest.id, sum)
            sum = content.before
            yield from (cut for cut in reversed(content.cuts) if is_between(cut.step))

    def _needed(self, newest: LedgerEntry, after: int) -> list[Page]:
        """Returns the pages with the steps after `after`, oldest first, after checking that none is missing."""
        step, pages_needed = max(newest.first, after + 1), list[Page]()
        for page in self.pages():
            if page.first <= step <= page.last:
                pages_needed.append(page)
                step = page.last + 1
        if step <= newest.packed:
            raise MissingError(f"the page of step {step} in {HISTORY}")
        return [page for page in pages_needed if page.first <= newest.packed]

    def _tables(self, name: str | None) -> list[Table]:
        return decoded(self.texts(name), list[Table], self.folder.path, f"{DEFINITIONS}/{name}") if name else []

    def _complete(self, entry: LedgerEntry, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except IndexError as error:
            raise damaged(self.folder.path, f"{DEFINITIONS}/{entry.definitions} lacks a definition") from error

    def _bytes(self, name: str) -> bytes:
        data = self.folder.read(name)
        if data is None:
            raise MissingError(name)
        return data

    def _check_missing(
        self, error: MissingError, failed: tuple[int, str] | None, head: Sealed | None
    ) -> tuple[int, str]:
        """Handles a missing file: returns it for the next try; raises if it was missing before: the ledger is damaged."""
        newest = head[0].number if head else max(self.numbers(), default=0)
        if failed == (newest, str(error)):
            raise damaged(self.folder.path, f"{error} is missing") from error
        return newest, str(error)

    def _check_nothing(self) -> None:
        """Checks that a folder without a log is empty.

        Raises:
            SinkError: the ledger is damaged, or has an older form.
        """
        path = self.folder.path
        if self.folder.names("_delta_log"):
            raise SinkError(
                f"{path} is the ledger of a changefeed from before the first release, a Delta table: delete it, "
                f"and {REBUILD_ALL}"
            )
        if self.folder.names(HISTORY) or self.folder.names(DEFINITIONS):
            raise damaged(path, f"{LOG} is empty or missing, and other files of the ledger are there")
