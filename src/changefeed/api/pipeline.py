"""A pipeline in Python: what `changefeed check`, `explain`, `run`, `status`, `dlq`, `repair` and `expire` do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from changefeed.api.dead_letters import KeptDeadLetter, dead_letters
from changefeed.api.moments import moment_of
from changefeed.api.results import Progress, Summary
from changefeed.api.sessions import asked, session_for, through
from changefeed.api.signals import stop_on_interrupt
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.load import load, read
from changefeed.pipeline.operations.check import CheckReport, checks
from changefeed.pipeline.operations.explain import Explanation, explain
from changefeed.pipeline.operations.status import NEWEST, Status, status
from changefeed.sources import source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changefeed.pipeline.operations.expire import Expiry
    from changefeed.pipeline.operations.repair import Repaired
    from changefeed.pipeline.operations.replay import Outcome
    from changefeed.pipeline.retry import Retry


class Pipeline:
    """A source, a sink, and how changes get from one to the other.

    Only `run`, `replay` and `repair` need Spark; so do the others if the sink's file system can be reached through Spark alone. A
    session that you pass is used and left running; without one, a session is started and stopped again.

    Attributes:
        definition: the content of the YAML file, checked; immutable.
    """

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self._stop = threading.Event()

    @classmethod
    def load(cls, path: str | Path) -> Pipeline:
        """The pipeline that a YAML file defines.

        Args:
            path: of the file; relative paths in it are relative to its folder, `${NAME}` is taken from the environment.

        Raises:
            ConfigError: the file cannot be read, or has something in it that cannot work; the message lists all of it.
        """
        return cls(load(path))

    @classmethod
    def from_dict(cls, definition: Mapping[str, Any], *, base: str | Path | None = None) -> Pipeline:
        """The pipeline that a dict defines, with the sections and names of the YAML file.

        Args:
            definition: `{"source": {…}, "sink": {…}, "pipeline": {…}}`.
            base: the folder that relative paths are relative to; the current one if left out.

        Raises:
            ConfigError: something in it cannot work; the message lists all of it.
        """
        return cls(read(dict(definition), base=Path.cwd() if base is None else Path(base)))

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.definition.pipeline.name

    def check(self, records: int = 1000) -> CheckReport:
        """Checks that the pipeline can run here: Java, jars, source, first records, sink, ledger. Nothing is left behind.

        Args:
            records: how many records of the source to decode.

        Returns:
            All checks; `ok` is False if one failed. A failure raises nothing.
        """
        return CheckReport(tuple(checks(self.definition, records)))

    def explain(self, records: int = 10_000) -> Explanation:
        """Explains what a run would do: tables with keys and types, what is not kept, policies. Nothing is changed.

        Args:
            records: how many records of the source to look at.

        Raises:
            ConfigError: the source is not there, or a table of somebody else is where one would go.
            SourceError: the source cannot be read.
            UnsupportedError: a schema change in the records cannot be applied.
        """
        return asked(self.definition, lambda: explain(self.definition, records))

    def run(
        self,
        spark: SparkSession | None = None,
        *,
        once: bool = True,
        until: int | str | datetime | None = None,
        progress: Callable[[Progress], None] | None = None,
        stopping: Callable[[], bool] | None = None,
        retrying: Callable[[Retry], None] | None = None,
    ) -> Summary:
        """Applies the changes of the source to the tables of the sink. It goes on where the last run ended, however it did.

        Args:
            spark: a session; without one, a session is started, and stopped at the end.
            once: stop after what the source has now; else follow it until `stop` is called.
            until: bring all tables to exactly this point: a commit_ts, a time (UTC unless it has a zone), or a GTID.
            progress: called after every step.
            stopping: asked every second whether to stop after this step. With it, Ctrl-C is yours to handle.
            retrying: called before the wait for another try, after an error that may pass.

        Returns:
            What was done; `reached` is False if the source does not reach `until` yet.

        Raises:
            KeyboardInterrupt: Ctrl-C; the step that the run was at has been finished. A second one ends the process.
            ConfigError: the pipeline cannot run as defined, or `until` lies before what has been applied.
            ProtocolError: a record could not be decoded, and the policy is to stop.
            FencedError: another run of the pipeline took over.
            SourceError, SinkError, ResourceError: the outside failed, and went on failing.
        """
        from changefeed.pipeline.run import run

        self._stop.clear()
        point = None if until is None else moment_of(until)

        def report(state: Any) -> None:
            if progress is not None:
                progress(Progress.of(self.definition, state))

        with session_for(self.definition, spark) as session, self._interrupts(stopping) as interrupted:

            def stops() -> bool:
                return self._stop.is_set() or interrupted()

            began = time.monotonic()
            done = run(
                self.definition, session, once=once, until=point, progress=report, stopping=stops, retrying=retrying
            )
            return Summary.of(self.definition, done, time.monotonic() - began, stopped=stops())

    def stop(self) -> None:
        """Lets a `run` in another thread end after the step that it is at."""
        self._stop.set()

    def status(self, cuts: int | None = NEWEST) -> Status:
        """Reads the pipeline's state from its ledger: positions, cuts and counts.

        Args:
            cuts: how many of the newest cuts; None for all.

        Raises:
            ConfigError: the ledger is another pipeline's.
            SinkError: it cannot be read.
        """
        return asked(self.definition, lambda: status(self.definition, cuts))

    def dead_letters(self, *, replayed: bool = False) -> list[KeptDeadLetter]:
        """The records that could not be decoded and wait; with `replayed`, also those that have been decoded since.

        Raises:
            ConfigError: the ledger is another pipeline's.
            SinkError: they cannot be read.
        """
        return asked(self.definition, lambda: dead_letters(self.definition, replayed=replayed))

    def replay(
        self, positions: Sequence[str] = (), *, dry_run: bool = False, spark: SparkSession | None = None
    ) -> Outcome:
        """Decodes dead letters again, with the options that the pipeline has now, and applies what they hold.

        Args:
            positions: `topic:partition:offset`, with or without `:index`: these letters alone; all if left out.
            dry_run: change nothing.
            spark: a session; one is started if it is needed and none is given.

        Raises:
            ConfigError: no letter waits at one of the positions.
            SinkError: ledger or letters cannot be read or written.
        """
        from changefeed.pipeline.operations.replay import look, replay

        result = asked(self.definition, lambda: look(self.definition, positions))
        if not dry_run and (result.letters or result.released or result.unfinished):
            with session_for(self.definition, spark) as session, through(self.definition, session):
                result = replay(self.definition, session, positions).outcome
        return result

    def repair(
        self,
        tables: Sequence[str] | Literal["all"],
        how: Literal["restore", "accept", "rebuild"],
        *,
        spark: SparkSession | None = None,
    ) -> Repaired:
        """Repairs tables that a run refuses to write on.

        Args:
            tables: by `database.table`; or `all`, with `rebuild`: the next run reads the source from its beginning.
            how: `restore` the rows of the ledger's version, `accept` the table as it is, or `rebuild` it from the source.
            spark: a session; without one, a session is started and stopped.

        Raises:
            ConfigError: the ledger has no such table, or it cannot be repaired this way.
            SinkError: the ledger is damaged.
            SourceError: the source has lost records that a rebuild needs.
        """
        from changefeed.errors import ConfigError
        from changefeed.pipeline.operations.repair import repair, start_over

        if tables == "all" and how != "rebuild":
            raise ConfigError(f"all tables at once can be rebuilt only: name the tables to {how}")
        with session_for(self.definition, spark) as session:
            if tables == "all":
                return start_over(self.definition, session)
            return repair(self.definition, session, tuple(tables), how)

    def expire(self, older_than: timedelta = timedelta(days=7), *, dry_run: bool = False) -> Expiry:
        """Deletes the folders of renamed and dropped tables that only old cuts pin.

        Args:
            older_than: how long ago the newest cut must have stopped using a folder.
            dry_run: delete nothing.

        Raises:
            ConfigError: the pipeline has done no step, or another expiry is at work.
            SinkError: the ledger cannot be read, or a folder not deleted.
        """
        from changefeed.pipeline.operations.expire import expire

        return expire(self.definition, older_than, dry_run=dry_run)

    def missing(self) -> str | None:
        """The reason why the source cannot be read yet, as a pattern that matches no file; None if it can be."""
        missing = source(self.definition.source).missing()
        return None if missing is None else missing.what

    @contextmanager
    def _interrupts(self, stopping: Callable[[], bool] | None) -> Iterator[Callable[[], bool]]:
        if stopping is not None:
            yield stopping
            return
        with stop_on_interrupt() as interrupted:
            yield interrupted

    def __repr__(self) -> str:
        ends = self.definition
        return f"<changefeed pipeline {self.name}: {ends.source.type} to {ends.sink.type} at {ends.sink.path}>"
