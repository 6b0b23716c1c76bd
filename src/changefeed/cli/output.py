"""The only module that prints: events and results to stdout, everything else to stderr.

In JSON documents `commit_ts` is a string, as 64-bit numbers are in protobuf's JSON: jq and JavaScript read numbers as
doubles and would round it. Events of `changefeed decode --json` are canonical text and have it as a number.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import click

from changefeed.redaction import redact

if TYPE_CHECKING:
    from rich.console import Console

_LINES_AT_ONCE = 1000
_SPACING = 10.0  # seconds between two lines of a run, where they are kept in a log
_WIDE = 10_000  # width of a table that is written to a file or a pipe, where no line is folded


class OutputClosedError(Exception):
    """The reader of stdout has closed it, as `head` does."""


def many(count: int, what: str) -> str:
    """A count and its noun: `1 row`, `1,204 rows`."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


class ProgressCounter(Protocol):
    """A progress counter for a person who waits."""

    def advance(self, count: int) -> None:
        """Adds `count` to what has been done."""


class RunLine:
    """The line that people see of a run while it goes on; this one shows nothing."""

    def say(self, text: str) -> None:
        """Shows the newest text."""

    def bar(self, done: int, total: int | None) -> None:
        """Shows how much is done; `total` is None if that is not known."""

    def tick(self) -> None:
        """Shows a text that had to wait, if its time has come; called every second, in a thread of its own."""


class Output:
    """stdout and stderr of one command.

    Attributes:
        json: print one JSON object per line, errors included.
        traceback: print the traceback of errors.
        log_json: print each line on stderr as a JSON object with time, level and message.
        log_level: the lowest level of `logging` of the lines on stderr.
    """

    def __init__(self) -> None:
        self.json = False
        self.traceback = False
        self.log_json = False
        self.log_level = logging.INFO
        self._console: Console | None = None  # shows a line that changes

    @property
    def is_terminal(self) -> bool:
        """Whether a person watches stderr."""
        return not (self.json or self.log_json) and sys.stderr.isatty()

    def lines(self, lines: Iterable[str]) -> None:
        """Prints lines to stdout, in UTF-8 whatever the locale."""
        stdout, waiting = sys.stdout.buffer, iter(lines)
        try:
            while some := list(islice(waiting, _LINES_AT_ONCE)):
                stdout.write(("\n".join(some) + "\n").encode())
            stdout.flush()
        except BrokenPipeError as error:
            raise OutputClosedError from error

    def document(self, value: Any) -> None:
        """Prints one value as a line of JSON."""
        self.lines([json.dumps(_exact(value), ensure_ascii=False)])

    def done(self, **result: Any) -> None:
        """Prints the result of a command, whose counts have names in the plural: `wrote orders.jsonl, 12 records`."""
        if self.json:
            self.document(result)
        else:
            counts = {name: value for name, value in result.items() if name != "wrote" and value}
            words = [many(count, name.removesuffix("s").replace("_", " ")) for name, count in counts.items()]
            self.lines([", ".join([f"wrote {result['wrote']}", *words])])

    def table(self, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Prints a table for people."""
        from rich.console import Console
        from rich.table import Table

        table = Table(*titles, box=None, pad_edge=False)
        for row in rows:
            table.add_row(*row)
        console = Console(no_color=True, width=None if sys.stdout.isatty() else _WIDE)
        with console.capture() as capture:
            console.print(table)
        self.lines(line.rstrip() for line in capture.get().splitlines())

    def note(self, text: str, level: int = logging.INFO, **fields: Any) -> None:
        """Prints to stderr, with secrets redacted.

        Args:
            text: for people.
            level: by consequence: ERROR if data is lost or progress has stopped, WARNING if the run is impeded and nothing is
                lost, INFO for its life.
            fields: more members, where lines are JSON.
        """
        if level < self.log_level:
            return
        if self.log_json:
            time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            known = {"time": time, "level": logging.getLevelName(level).lower(), "message": redact(text), **fields}
            click.echo(json.dumps(known, ensure_ascii=False), err=True)
        elif self._console is not None:
            self._console.out(redact(text), highlight=False)
        else:
            click.echo(redact(text), err=True)

    def error(self, kind: str, message: str, code: int) -> None:
        """Prints an error to stderr."""
        if self.log_json:
            self.note(message, logging.ERROR, type=kind, exit_code=code)
            return
        shown = {"error": {"type": kind, "message": message, "exit_code": code}}
        self.note(json.dumps(shown, ensure_ascii=False) if self.json else f"error: {message}", logging.ERROR)

    @contextmanager
    def warnings(self) -> Iterator[None]:
        """Prints what the package logs as notes: warnings and errors; with `log_json`, all from `log_level` on."""
        handler, logger = _Warnings(self), logging.getLogger("changefeed")
        level = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)

    def flush(self) -> None:
        """Flushes buffered output."""
        try:
            sys.stdout.buffer.flush()
        except BrokenPipeError as error:
            raise OutputClosedError from error

    def discard(self) -> None:
        """Flushes what can still be written, and makes the interpreter's own flush at exit a no-op."""
        try:
            self.flush()
        except OutputClosedError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    @contextmanager
    def status(self, what: str) -> Iterator[Callable[[str], None]]:
        """A status line on stderr that shows the newest text; without a terminal, one line per text."""
        if not self.is_terminal:
            yield _nothing if self.json else self.note
            return
        from rich.markup import escape

        with self._terminal() as console, console.status(escape(redact(what))) as line:
            yield lambda text: line.update(escape(redact(text)))

    @contextmanager
    def run_line(self) -> Iterator[RunLine]:
        """The line of a run on stderr: with a bar in a terminal; otherwise its newest text, at most every ten seconds."""
        if self.json:
            yield RunLine()
        elif self.is_terminal:
            with self._terminal() as console, _terminal_line(console) as line:
                yield line
        else:
            spaced = _SpacedLines(self.note)
            try:
                yield spaced
            finally:
                spaced.flush()

    @contextmanager
    def progress(self, what: str) -> Iterator[ProgressCounter]:
        """A record counter, shown if stderr is a terminal and nothing else is printed there."""
        if not self.is_terminal:
            yield _Silent()
            return
        from rich.progress import Progress as Bar
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}  {task.completed:,.0f} records"),
            TimeElapsedColumn(),
        )
        with self._terminal() as console, Bar(*columns, console=console, transient=True) as bar:
            yield _Counted(bar, bar.add_task(what, total=None))

    @contextmanager
    def _terminal(self) -> Iterator[Console]:
        """The terminal, with a line at its bottom that changes: notes are printed above it, and do not break it."""
        from rich.console import Console

        before, self._console = self._console, Console(stderr=True)
        try:
            yield self._console
        finally:
            self._console = before


class _SpacedLines(RunLine):
    """Prints the newest text as a line, at most every ten seconds, and at the end."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note, self._waiting, self._last, self._lock = note, "", -_SPACING, threading.Lock()

    def say(self, text: str) -> None:
        with self._lock:
            self._waiting = text
        self.tick()

    def tick(self) -> None:
        if time.monotonic() - self._last >= _SPACING:
            self.flush()

    def flush(self) -> None:
        """Prints the text that waits."""
        with self._lock:
            if self._waiting:
                self._last = time.monotonic()
                self._note(self._waiting)
                self._waiting = ""


@contextmanager
def _terminal_line(console: Console) -> Iterator[RunLine]:
    """A spinner and the text, on as many lines as it takes; at the right edge a bar, where the total is known."""
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TaskProgressColumn, TextColumn
    from rich.table import Column
    from rich.text import Text

    class KnownBar(BarColumn):
        def render(self, task: Task) -> Any:
            return super().render(task) if task.total else ""

    class KnownShare(TaskProgressColumn):
        def render(self, task: Task) -> Text:
            return super().render(task) if task.total else Text()

    class Line(RunLine):
        def say(self, text: str) -> None:
            shown.update(task, description=escape(redact(text)))

        def bar(self, done: int, total: int | None) -> None:
            shown.tasks[0].total = total  # `update` does not take a total away
            shown.update(task, completed=done)

    text = TextColumn("{task.description}", table_column=Column(ratio=1))
    columns = (SpinnerColumn(), text, KnownBar(bar_width=20), KnownShare())
    with Progress(*columns, console=console, transient=True, expand=True) as shown:
        task = shown.add_task("", total=None)
        yield Line()


class _Warnings(logging.Handler):
    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        text, level = record.getMessage(), record.levelname.lower()
        if self._output.log_json:
            self._output.note(text, record.levelno, logger=record.name)
        elif record.levelno >= logging.WARNING:
            shown = json.dumps({level: text}, ensure_ascii=False) if self._output.json else f"{level}: {text}"
            self._output.note(shown, record.levelno)


def _exact(value: Any) -> Any:
    """The value with each `commit_ts` as a text."""
    if isinstance(value, dict):
        return {
            key: str(item) if key == "commit_ts" and isinstance(item, int) else _exact(item)
            for key, item in value.items()
        }
    return [_exact(item) for item in value] if isinstance(value, list | tuple) else value


def _nothing(text: str) -> None:
    pass


class _Silent:
    def advance(self, count: int) -> None:
        pass


class _Counted:
    def __init__(self, bar: Any, task: Any) -> None:
        self._bar = bar
        self._task = task

    def advance(self, count: int) -> None:
        self._bar.advance(self._task, count)
