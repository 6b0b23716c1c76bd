"""A ledger of small files below the sink's path.

    log/<20-digit number>.json               entries, one a claim, a begun step, a finished step
    definitions/<epoch>-<hash>.json          tables' definitions that entries name
    history/<first step>-<last step>.json    pages: the cuts of many steps, when their entries have left the log

Theory of operation:

Rule 1. An entry is created by put-if-absent (`Folder.create`) and never changed. A run appends entry n + 1 after it has read
        all up to n. If n + 1 exists, another run has written it. After a run's first entry, its claim, that can only be a newer
        claim or an entry after one: the run is fenced. Only a claim may meet an entry of an older run; it reads that entry and
        tries the next number. A claim checks first that the storage supports put-if-absent.
Rule 2. An entry contains its run's random token and is read back, whatever the answer to its put was: the put has succeeded
        if the file has exactly these bytes.
Rule 3. An entry has a checksum, and that of the entry before. It refers to the newest entry with a state and to the entry with
        an unfinished plan, so the newest state takes two or three small reads. A claim reads and checks the whole log.
Rule 4. Every `_PAGE` steps the cuts of old steps are packed: first the page is written; then an entry sets `base`, the number
        up to which entries no longer count; then these are deleted, by the run that wrote the entry or by a later claim.
        If the run is killed in between, files remain that are never read, and are deleted the next time.
Rule 5. The newest entry is never deleted. If a run was paused while others used, packed and deleted its next number, it
        may create a file with that number again. So a run lists the log after its put: if there is a higher number, it is
        fenced, and its file, which is below `base`, does not count.
Rule 6. The name of a definitions file contains its epoch. A run deletes those of its own and earlier epochs to which no entry
        above `base` refers, so a run that is behind deletes nothing that a newer run has just written.
Rule 7. Entry 1 names the owner. It is never deleted, so a ledger is created once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from changefeed.errors import SinkError
from changefeed.model.definition import Table
from changefeed.pipeline.planning.actions import Plan, paths_of
from changefeed.pipeline.state import State
from changefeed.pipeline.store.base import (
    Cut,
    Keep,
    Latest,
    StateStore,
    cut_of,
    damaged,
    owner_of,
    taken_at_once,
    taken_over,
)
from changefeed.pipeline.store.entries import (
    DefinitionFile,
    EntryStatus,
    LedgerEntry,
    Ref,
    TableJson,
    decoded,
    definitions_of,
    opened,
    pack_plan,
    pack_state,
    sealed,
)
from changefeed.pipeline.store.folder import WritableFolder
from changefeed.pipeline.store.pages import Page, content_of, page_file
from changefeed.pipeline.store.reading import DEFINITIONS, FileReader, Sealed, entry_name
from changefeed.telemetry import passed

_PAGE = 100  # steps in a page; who changes it must see to pages that a run has left which was killed at writing one


class _BehindError(Exception):
    """An older run has appended an entry in the meantime."""


def _now() -> datetime:
    return datetime.now(UTC)


class FileStore(StateStore):
    """The ledger of one pipeline in a folder, as one run uses it; see `StateStore`.

    Args:
        folder: the ledger's folder.
        pipeline: the name of the pipeline.
        keep: which cuts to keep.
        now: returns the current time.
    """

    def __init__(
        self,
        folder: WritableFolder,
        pipeline: str,
        keep: Keep | None = None,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self.folder, self.pipeline, self.path = folder, pipeline, folder.path
        self.keep, self.now, self.token = keep or Keep(), now, uuid.uuid4().hex  # prose: stored as `token`
        self.reader = FileReader(folder, pipeline)
        self.owner, self.epoch, self.step, self.state = "", 0, 0, State()
        self.unfinished: Plan | None = None
        self.begun_by = range(0)
        self._head: Sealed  # the newest entry that this run has read
        self._done: Ref | None = None
        self._begun: Ref | None = None
        self._cuts: list[tuple[int, Cut]] = []  # of steps that are not packed: number of the entry, cut
        self._named: dict[int, str] = {}  # entry -> the definitions that it names, of entries that count
        self._definitions = DefinitionFile("", {})  # those that the newest entry names
        self._texts = TableJson()
        self._writes: set[str] = set()  # the paths of the plan that is begun

    def latest(self) -> Latest | None:
        """See `StoreReader`."""
        return self.reader.latest()

    def history(self, after: int = 0, *, newest_first: bool = False) -> Iterator[Cut]:
        """See `StoreReader`."""
        return self.reader.history(after, newest_first=newest_first)

    def claim(self) -> None:
        """See `StateStore`."""
        self.folder.check_create()
        tried = False
        while True:
            self.reader.steady(self._read)
            self.epoch = self._head[0].epoch + 1
            if not tried:
                passed("epoch.before")
                tried = True
            with suppress(_BehindError):
                self._append("epoch", self.step)
                break
        passed("epoch.after")
        if any(1 < number <= self._head[0].base for number in self.reader.numbers()):
            self._tidy()

    def begin(self, plan: Plan) -> None:
        """See `StateStore`."""
        passed("begun.before")
        definitions = self._define(self._texts.of(plan.state, plan))
        packed = msgspec.Raw(pack_plan(plan, self._place))
        self._append_next("begun", self.step + 1, definitions=definitions.name or None, plan=packed)
        self._writes = paths_of(plan)
        passed("begun.after")

    def finish(self, state: State) -> None:
        """See `StateStore`."""
        passed("done.before")
        definitions = self._define(self._texts.of(state))
        packed = msgspec.Raw(msgspec.json.encode(pack_state(state, self._place)))
        places = self._pack()
        wrote = tuple(sorted(self._writes - {table.path for table in state.tables.values()}))
        self._append_next(
            "done", self.step + 1, definitions=definitions.name or None, state=packed, wrote=wrote, **places
        )
        passed("done.after")
        entry = self._head[0]
        self.step, self.state, self.unfinished, self.begun_by = self.step + 1, state, None, range(0)
        self._writes = set()
        self._cuts.append((entry.number, cut_of(entry.epoch, entry.step, entry.at, state, wrote)))
        if places:
            self._tidy()

    def is_fenced(self) -> bool:
        """See `StateStore`."""
        head = self.reader.steady(self.reader.head)
        return head is not None and (head[0].epoch > self.epoch or head[0].token != self.token)

    # The log.

    def _read(self) -> None:
        """Reads the whole log; creates it if it does not exist."""
        head = self.reader.head()
        if head is None:
            self._create()
            head = self.reader.head()
        if head is None:
            raise damaged(self.path, f"{entry_name(1)} was written and is gone")
        newest, live = head[0], self.reader.live(head)
        self.owner = owner_of(newest.pipeline, newest.id)
        self.step, self.state, self._done = 0, State(), None
        self._cuts, self._named = [], {}
        for entry, sum in live:
            if entry.definitions:
                self._named[entry.number] = entry.definitions
            if entry.status == "done":
                self._done = Ref(entry.number, sum)
                self.step = entry.step
                self._cuts.append((entry.number, self.reader.cut(entry)))
        self._check_steps(newest)
        self._begun = Ref(newest.number, head[1]) if newest.status == "begun" else newest.begun
        self._head = head
        self._load(live)

    def _check_steps(self, newest: LedgerEntry) -> None:
        steps = [cut.step for _, cut in self._cuts]
        if steps != list(range(newest.packed + 1, newest.packed + 1 + len(steps))) or (newest.packed and not steps):
            raise damaged(self.path, f"{entry_name(newest.number)} does not continue the steps before it")

    def _load(self, live: list[Sealed]) -> None:
        """Restores state and plan from the entries that contain them."""
        entries = {entry.number: entry for entry, _ in live}
        for ref in (self._done, self._begun):
            if ref is not None and ref.number not in entries:
                raise damaged(self.path, f"{entry_name(ref.number)} is obsolete, but contains the newest state or plan")
        if self._done:
            self.state = self.reader.state(entries[self._done.number])
        self.unfinished, self.begun_by, self._writes = None, range(0), set()
        if self._begun:
            begun = entries[self._begun.number]
            self.unfinished = self.reader.plan(begun)
            self.begun_by = range(begun.epoch, self._head[0].epoch + 2)
            self._writes = paths_of(self.unfinished)
        name = next((self._named[number] for number in sorted(self._named, reverse=True)), None)
        if name is not None:
            raw = decoded(self.reader.texts(name), list[msgspec.Raw], self.path, f"{DEFINITIONS}/{name}")
            self._definitions = DefinitionFile(name, {bytes(text): place for place, text in enumerate(raw)})

    def _create(self) -> None:
        """Writes entry 1; if two runs write it at once, the first one counts."""
        entry = LedgerEntry(
            number=1, status="created", epoch=0, step=0, at=self.now(), token=self.token, before="", pipeline=self.pipeline,
            id=uuid.uuid4().hex[:16],
        )  # fmt: skip
        self._put(entry_name(1), sealed(msgspec.json.encode(entry)))

    def _append_next(self, status: EntryStatus, step: int, **more: Any) -> None:
        try:
            self._append(status, step, **more)
        except _BehindError:
            raise damaged(self.path, f"an older run wrote {entry_name(self._head[0].number + 1)}") from None

    def _append(self, status: EntryStatus, step: int, **more: Any) -> None:
        """Writes the next entry.

        Raises:
            FencedError: a newer run has written it.
            _BehindError: an older run has written it.
        """
        newest, sum = self._head
        entry = LedgerEntry(
            number=newest.number + 1, status=status, epoch=self.epoch, step=step, at=max(self.now(), newest.at),
            token=self.token,
            before=sum, pipeline=self.pipeline, id=newest.id, done=self._done,
            begun=None if status == "done" else self._begun,
            **{"base": newest.base, "packed": newest.packed, "first": newest.first, "page": newest.page, **more},
        )  # fmt: skip
        name, data = entry_name(entry.number), sealed(msgspec.json.encode(entry))
        content = self._put(name, data)
        if content is not None and content != data:
            self._give_way(decoded(opened(content, self.path, name)[0], LedgerEntry, self.path, name))
        if content is None or self.reader.numbers()[-1:] != [entry.number]:
            raise self._passed_by()
        self._head = (entry, opened(data, self.path, name)[1])
        self._follow(entry)

    def _give_way(self, other: LedgerEntry) -> None:
        """Handles an entry of another run at this run's number: raises its error, or returns to try the next number."""
        if other.pipeline != self.pipeline or other.number != self._head[0].number + 1:
            raise damaged(
                self.path, f"{entry_name(self._head[0].number + 1)} is not what a run of this pipeline writes"
            )
        if other.token == self.token:  # of a call that has failed before
            raise self._passed_by()
        if other.epoch > self.epoch:
            raise taken_over(self.path, self.pipeline, other.epoch, self.epoch)
        if other.epoch == self.epoch:
            raise taken_at_once(self.path, self.pipeline, self.epoch)
        raise _BehindError

    def _passed_by(self) -> SinkError:
        """Returns the error for a run whose number in the log was used before."""
        head = self.reader.steady(self.reader.head)
        if head is None or head[0].token == self.token:
            return SinkError(
                f"{self.path}: a write that was reported as failed has succeeded after all. Run again", transient=True
            )
        return taken_over(self.path, self.pipeline, head[0].epoch, self.epoch)

    def _follow(self, entry: LedgerEntry) -> None:
        """Makes this the newest entry."""
        ref = Ref(entry.number, self._head[1])
        if entry.status == "done":
            self._done, self._begun = ref, None
        elif entry.status == "begun":
            self._begun = ref
        if entry.definitions:
            self._named[entry.number] = entry.definitions

    def _put(self, name: str, data: bytes) -> bytes | None:
        """Creates a file if its name is free; returns the bytes of the file, which are read back even after an error."""
        try:
            self.folder.create(name, data)
        except Exception:
            with suppress(Exception):  # whatever asking meets, the error at hand came first
                if self.folder.read(name) == data:
                    return data
            raise
        return self.folder.read(name)

    def _define(self, texts: list[bytes]) -> DefinitionFile:
        """Returns a file with these definitions: the current file, or a new one."""
        if self._definitions.covers(texts):
            return self._definitions
        file = definitions_of(self.epoch, texts)
        name, data = f"{DEFINITIONS}/{file.name}", sealed(file.body())
        if self._put(name, data) != data:
            raise damaged(self.path, f"{name} has changed since it was written")
        self._definitions = file
        return file

    def _place(self, table: Table) -> int:
        """Returns the place of a table's definition in the current definitions file."""
        return self._definitions.places[self._texts(table)]

    # Pages.

    def _pack(self) -> dict[str, Any]:
        """Writes pages of the oldest steps if there are enough; returns the fields about them for the next entry."""
        newest, id = self._head[0], self._head[0].id
        if len(self._cuts) < _PAGE:
            return {}
        base, packed, before = newest.base, newest.packed, newest.page
        while len(self._cuts) >= _PAGE:
            cuts = self._cuts[:_PAGE]
            page = Page(cuts[0][1].step, cuts[-1][1].step)
            passed("pack.before")
            before = self._put_page(page, before, [cut for _, cut in cuts], id)
            passed("pack.after")
            base, packed, self._cuts = cuts[-1][0], page.last, self._cuts[_PAGE:]
        return {"base": base, "packed": packed, "first": self._first(newest.first, packed), "page": before}

    def _put_page(self, page: Page, before: str, cuts: list[Cut], id: str) -> str:
        """Writes a page if it does not exist; returns its checksum."""
        data = page_file(id, before, cuts)
        content = content_of(self._put(page.name, data) or data, id, page, self.path)
        if (content.cuts, content.before) != (cuts, before):
            raise SinkError(
                f"{self.path}/{page.name}: its cuts differ from the log's: was an older ledger restored? Move the file "
                "away, and run again"
            )
        return content.sum

    def _first(self, first: int, packed: int) -> int:
        """Returns the first step to keep: that of the oldest page with a cut that must be kept."""
        if self.keep.cuts is None and self.keep.age is None:
            return first
        id, since = self._head[0].id, self.now() - self.keep.age if self.keep.age is not None else None
        for page in self.reader.pages():
            if page.last < first or page.last > packed:
                continue
            few = self.keep.cuts is not None and page.last > self.step + 1 - self.keep.cuts
            if few or (since is not None and self.reader.page(page, id).cuts[-1].at >= since):
                break
            first = page.last + 1
        return first

    def _tidy(self) -> None:
        """Deletes files that no longer count; see rules 4 and 6."""
        newest = self._head[0]
        self._named = {number: name for number, name in self._named.items() if number > newest.base}
        passed("tidy.before")
        for name in self._garbage(newest):
            self.folder.delete([name])
            passed("tidy.between")
        self.folder.tidy()
        passed("tidy.after")

    def _garbage(self, newest: LedgerEntry) -> Iterator[str]:
        for number in self.reader.numbers():
            if 1 < number <= newest.base:
                yield entry_name(number)
        for page in self.reader.pages():
            if page.last < newest.first:
                yield page.name
        for name in sorted(self.folder.names(DEFINITIONS)):
            epoch, _, _ = name.partition("-")
            if epoch.isdecimal() and int(epoch) <= self.epoch and name not in self._named.values():
                yield f"{DEFINITIONS}/{name}"
