"""The dead letters of a pipeline, in files of its own folder: lines of JSON that any program reads.

    dead_letters/<20-digit number>.jsonl     a header, then dead letters, or the positions of those that have been replayed

Rule 1. A file is created by put-if-absent and never changed. A run creates file n + 1 after it has listed the files up to n. If
        another run has created it meanwhile, the run begins again.
Rule 2. A dead letter is identified by its position: topic, partition, offset, index (None for a whole record). Files count in the
        order of their numbers: a dead letter is left out if one waits at its position, and replaces one that has been replayed.
Rule 3. A run asks after the list, and before it creates the file, whether a newer run has taken over. So what it writes comes
        before all that a newer run writes, or is not written.
Rule 4. A file `whole` has all dead letters of the files before it, which are then deleted. A run writes one when there are
        `_MANY` files, unless it would be larger than `_LARGE`. A reader that misses a file which it has listed lists again.
        A run that was paused may create a file with the number of a deleted one, which does not count. So it lists again after
        the put, and writes once more if there is a higher number. What is written twice counts once.
Rule 5. The header has the number and the checksum of the lines after it. After the newest file `whole` no number is missing.
Rule 6. Earlier versions kept dead letters in a table of the sink. They are read until the first file is written, which has them.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Literal, TypeAlias, TypeVar

import msgspec

from changefeed import __version__
from changefeed.errors import ConfigError, SinkError
from changefeed.pipeline.decoders import decoder_of
from changefeed.pipeline.store.folder import LedgerFolder, WritableFolder
from changefeed.sinks.ways_out import LETTERS_DAMAGED

FORMAT = 1
_NAME = re.compile(r"(\d{20})\.jsonl")
_MANY = 100  # files
_LARGE = 64 * 2**20  # bytes
_AT_ONCE = 16  # files that are read at the same time
_FILE = 8 * 2**20  # bytes of dead letters in a file, at most, unless one alone is larger

Position: TypeAlias = tuple[str, int, int, int | None]
"""Topic, partition, offset of the record, index in it."""


class _Header(msgspec.Struct, frozen=True):
    """The first line of a file.

    Attributes:
        holds: dead letters, positions, or all dead letters of this file and those before it.
        at: when the file was written: the time at which the dead letters of its positions were replayed.
        lines, sha256: number of lines after it, and SHA-256 of their text in hex.
    """

    format: int
    version: str
    holds: Literal["letters", "replayed", "whole"]
    at: datetime
    lines: int
    sha256: str


class _Placed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A dead letter without its content, or the position of one."""

    topic: str
    partition: int
    offset: int
    index: int | None = None
    database: str | None = None
    table: str | None = None
    replayed: datetime | None = None

    @property
    def position(self) -> Position:
        """The position that identifies it."""
        return self.topic, self.partition, self.offset, self.index


class StoredLetter(_Placed, frozen=True, kw_only=True, omit_defaults=False):
    """A dead letter.

    Attributes:
        topic, partition, offset: of the record.
        index: of the message in the record; None if the whole record could not be decoded.
        database, table: the table that it names; None if it names none.
        replayed: when it was replayed; None while it waits.
        at: when it was stored.
        pipeline: the name of the pipeline.
        reason, error, protocol, byte, schema_id: see `model.event.DeadLetter`.
        sha256: SHA-256 of key and value, in hex.
        key, value, headers: of the record, as read.
    """

    at: datetime
    pipeline: str
    reason: str
    error: str
    protocol: str
    byte: int | None = None
    schema_id: str | None = None
    sha256: str
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def order(self) -> tuple[str, int, int, int]:
        """Sorts dead letters by position, that of a whole record before those in it."""
        return self.topic, self.partition, self.offset, -1 if self.index is None else self.index


class LetterSummary(_Placed, frozen=True, kw_only=True, omit_defaults=False):
    """A dead letter without the record's bytes; the attributes are those of `StoredLetter`."""

    at: datetime
    reason: str
    error: str
    protocol: str
    byte: int | None = None
    sha256: str

    @property
    def order(self) -> tuple[str, int, int, int]:
        """Sorts them as `StoredLetter.order` does."""
        return self.topic, self.partition, self.offset, -1 if self.index is None else self.index


_Letter = TypeVar("_Letter", bound=_Placed)


def _not_fenced() -> None:
    return None


@dataclass(slots=True)
class LetterFiles:
    """The files of one pipeline.

    Attributes:
        folder: the folder that contains them.
        old: returns the dead letters in the table of an earlier version; called while there are no files.
    """

    folder: LedgerFolder
    old: Callable[[], Sequence[StoredLetter]] = tuple
    _too_large: int = field(default=0, init=False)  # number of files whose letters were too large for one

    # Reading.

    def rows(self, *, replayed: bool = False) -> list[StoredLetter]:
        """Returns the dead letters that wait, sorted by position; with `replayed`, all of them.

        Raises:
            SinkError: the files cannot be read, or are damaged.
            ConfigError: they are in a newer format.
        """
        letters = self._letters(StoredLetter).values()
        return sorted((one for one in letters if replayed or one.replayed is None), key=lambda one: one.order)

    def summaries(self) -> list[LetterSummary]:
        """Returns all dead letters without the records' bytes, sorted by position; raises as `rows`."""
        return sorted(self._letters(LetterSummary).values(), key=lambda one: one.order)

    def waiting(self) -> int:
        """Returns the number of dead letters that wait; raises as `rows`."""
        return sum(one.replayed is None for one in self._letters(_Placed).values())

    def tables(self) -> set[tuple[str | None, str | None]]:
        """Returns the (database, table) of every dead letter, replayed or not; raises as `rows`."""
        return {(one.database, one.table) for one in self._letters(_Placed).values()}

    # Writing.

    def write(self, letters: Iterable[StoredLetter], check: Callable[[], None] = _not_fenced) -> None:
        """Adds dead letters; leaves out those at whose position one waits.

        Args:
            letters: the dead letters.
            check: raises if another run has taken over.

        Raises:
            SinkError: the files cannot be read or written, or are damaged.
            ConfigError: as `rows`.
        """
        for lines in _pieces(map(msgspec.json.encode, letters)):
            self._append("letters", partial(list, lines), check)

    def mark(self, positions: Iterable[Position], check: Callable[[], None] = _not_fenced) -> None:
        """Marks the dead letters that wait at these positions as replayed now. Arguments and errors are as for `write`."""
        to_mark = set(positions)
        self._mark(lambda position: position in to_mark, check)

    def mark_from(self, ends: dict[tuple[str, int], int], check: Callable[[], None] = _not_fenced) -> None:
        """Marks as replayed the dead letters at or after these positions, and all dead letters in other partitions.

        Args:
            ends: (topic, partition) -> offset of the next record.
            check: as for `write`.

        Raises:
            SinkError: as `write`.
            ConfigError: as `write`.
        """
        self._mark(lambda position: position[2] >= ends.get(position[:2], 0), check)

    def _mark(self, chosen: Callable[[Position], bool], check: Callable[[], None]) -> None:
        def lines() -> list[bytes]:
            waiting = (p for p, one in self._letters(_Placed).items() if one.replayed is None)
            marked = (_Placed(topic=p[0], partition=p[1], offset=p[2], index=p[3]) for p in waiting if chosen(p))
            return [_json(one) for one in marked]

        self._append("replayed", lines, check)

    def _append(
        self, holds: Literal["letters", "replayed"], lines: Callable[[], list[bytes]], check: Callable[[], None]
    ) -> None:
        while True:
            numbers = self._numbers()
            new = lines()
            if not new:
                return
            check()
            if not numbers and (old := self.old()):
                self._create(1, "whole", [_json(one) for one in sorted(old, key=lambda one: one.order)])
                continue
            number = numbers[-1] + 1 if numbers else 1
            if self._create(number, holds, new) and self._numbers()[-1] == number:
                break
        if len(numbers) + 1 >= max(_MANY, 2 * self._too_large):
            self._put_together(check)

    def _put_together(self, check: Callable[[], None]) -> None:
        """Writes one file with all dead letters, and deletes the others. See rule 4."""
        numbers = self._numbers()
        lines = [_json(one) for one in self.rows(replayed=True)]
        check()
        if sum(map(len, lines)) > _LARGE:
            self._too_large = len(numbers)
        elif self._create(numbers[-1] + 1, "whole", lines) and self._numbers()[-1] == numbers[-1] + 1:
            self._writable.delete(map(_name, numbers))
            self._writable.tidy()

    def _create(self, number: int, holds: Literal["letters", "replayed", "whole"], lines: list[bytes]) -> bool:
        text = b"".join(line + b"\n" for line in lines)
        header = _Header(FORMAT, __version__, holds, datetime.now(UTC), len(lines), hashlib.sha256(text).hexdigest())
        return self._writable.create(_name(number), _json(header) + b"\n" + text)

    @property
    def _writable(self) -> WritableFolder:
        assert hasattr(self.folder, "create"), "the dead letters were opened to be read"
        return self.folder  # type: ignore[return-value]

    # The log.

    def _letters(self, form: type[_Letter]) -> dict[Position, _Letter]:
        """Returns all dead letters, in a form with or without their content."""
        before: list[int] = []
        while numbers := self._numbers():
            letters, missing = self._read(numbers, form)
            if missing is None:
                return letters
            if numbers == before:
                raise self._damaged(_name(missing), "it is missing")
            before = numbers
        return {one.position: msgspec.convert(one, form, from_attributes=True) for one in self.old()}

    def _read(self, numbers: Sequence[int], form: type[_Letter]) -> tuple[dict[Position, _Letter], int | None]:
        """Reads files in order; the second result is the number of a missing file, which may have been deleted meanwhile."""
        letters: dict[Position, _Letter] = {}
        missing: int | None = None
        contents = self._contents(numbers)
        for (previous, number), data in zip(pairwise([0, *numbers]), contents, strict=True):
            if data is None:
                missing = number
                continue
            header, lines = self._opened(_name(number), data)
            if header.holds == "whole":
                letters, missing = {}, None
            elif number != previous + 1:
                missing = previous + 1
            if header.holds == "replayed":
                for place in self._decoded(_name(number), lines, _Placed):
                    letter = letters.get(place.position)
                    if letter is not None and letter.replayed is None:
                        letters[place.position] = msgspec.structs.replace(letter, replayed=header.at)
                continue
            for letter in self._decoded(_name(number), lines, form):
                earlier = letters.get(letter.position)
                if earlier is None or earlier.replayed is not None:
                    letters[letter.position] = letter
        return letters, missing

    def _contents(self, numbers: Sequence[int]) -> Iterator[bytes | None]:
        """Yields the content of files in their order, None for a missing one; reads some of them at the same time."""
        if len(numbers) == 1:
            yield self.folder.read(_name(numbers[0]))
            return
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="letters") as pool:  # each read may be a request
            waiting = deque[Future[bytes | None]]()
            for number in numbers:
                waiting.append(pool.submit(self.folder.read, _name(number)))
                if len(waiting) == _AT_ONCE:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _opened(self, name: str, data: bytes) -> tuple[_Header, list[bytes]]:
        """Checks a file; returns its header and the other lines."""
        first, _, text = data.partition(b"\n")
        try:
            stated = msgspec.json.decode(first)
            if isinstance(stated, dict) and isinstance(format := stated.get("format"), int) and format > FORMAT:
                raise ConfigError(
                    f"{self.folder.path}/{name} is in format {format}, written by changefeed {stated.get('version')}; this is "
                    f"changefeed {__version__}, which reads formats up to {FORMAT}: use the newer version"
                )
            header = decoder_of(_Header).decode(first)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._damaged(name, str(error)) from error
        lines = text.split(b"\n")[:-1]
        if len(lines) != header.lines:
            raise self._damaged(name, f"it has {len(lines)} lines after the header, {header.lines} were written")
        if hashlib.sha256(text).hexdigest() != header.sha256:
            raise self._damaged(name, "its content has changed")
        return header, lines

    def _decoded(self, name: str, lines: Iterable[bytes], form: type[_Letter]) -> Iterator[_Letter]:
        decoder = decoder_of(form)
        for number, line in enumerate(lines, 2):
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise self._damaged(name, f"line {number}: {error}") from error

    def _damaged(self, name: str, why: str) -> SinkError:
        return SinkError(f"{self.folder.path}/{name}: dead letters are damaged: {why}. {LETTERS_DAMAGED}")

    def _numbers(self) -> list[int]:
        names = (_NAME.fullmatch(name) for name in self.folder.names(""))
        return sorted(int(name[1]) for name in names if name)


_json = msgspec.json.Encoder().encode


def _name(number: int) -> str:
    return f"{number:020}.jsonl"


def _pieces(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Divides lines into those of one file each."""
    piece, size = list[bytes](), 0
    for line in lines:
        if piece and size + len(line) > _FILE:
            yield piece
            piece, size = [], 0
        piece.append(line)
        size += len(line)
    if piece:
        yield piece
