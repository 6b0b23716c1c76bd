"""A pipeline in Python: the operations of `changefeed check`, `explain`, `run`, `status`, `dlq`, `repair` and `expire`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from changefeed.api.dead_letters import KeptDeadLetter, dead_letters
from changefeed.api.moments import is_time, moment_of
from changefeed.api.results import Progress, Summary
from changefeed.api.sessions import asked, session_for, through
from changefeed.api.signals import stop_on_interrupt
from changefeed.errors import ConfigError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.load import load, read
from changefeed.pipeline.operations.check import CheckReport, checks
from changefeed.pipeline.operations.explain import Explanation, explain
from changefeed.pipeline.operations.status import NEWEST, Status, status
from changefeed.sources import source
from changefeed.telemetry import observed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changefeed.pipeline.monitoring.view import RunNow
    from changefeed.pipeline.operations.expire import Expiry
    from changefeed.pipeline.operations.repair import Repaired
    from changefeed.pipeline.operations.replay import Outcome
    from changefeed.pipeline.operations.snapshot import Requested
    from changefeed.pipeline.retry import Retry
    from changefeed.pipeline.state import State


class Pipeline:
    """Keeps the tables of a sink equal to the database whose changes a source delivers.

    `run`, `replay` and `repair` need Spark. The other methods need it only if nothing but Spark can reach the sink's file
    system. A session that you pass is used and left running; otherwise one is started and stopped again.

    Attributes:
        definition: the validated content of the YAML file; immutable.
    """

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self._stop = threading.Event()

    @classmethod
    def load(cls, path: str | Path) -> Pipeline:
        """Loads a pipeline from a YAML file.

        Args:
            path: the file. Relative paths in it start at its folder; `${NAME}` is replaced by the environment variable.

        Raises:
            ConfigError: the file cannot be read, or has invalid settings; the message lists all of them.
        """
        return cls(load(path))

    @classmethod
    def from_dict(cls, definition: Mapping[str, Any], *, base: str | Path | None = None) -> Pipeline:
        """Creates a pipeline from a dict with the sections and names of the YAML file.

        Args:
            definition: `{"source": {…}, "sink": {…}, "pipeline": {…}}`.
            base: the folder at which relative paths start; by default the current folder.

        Raises:
            ConfigError: some settings are invalid; the message lists all of them.
        """
        return cls(read(dict(definition), base=Path.cwd() if base is None else Path(base)))

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.definition.pipeline.name

    def check(self, records: int = 1000) -> CheckReport:
        """Checks that the pipeline can run on this machine: Java, jars, source, first records, tables, sink, ledger.

        Leaves no files behind.

        Args:
            records: maximum number of records of the source to decode.

        Returns:
            The result of every check; `ok` is False if one failed. A failed check raises no error.
        """
        return CheckReport(tuple(checks(self.definition, records)))

    def explain(self, records: int = 10_000) -> Explanation:
        """Explains what a run would do: tables with keys and types, what is not kept, policies. Changes nothing.

        Args:
            records: maximum number of records of the source to read.

        Raises:
            ConfigError: the source does not exist, or a table of another program is in the way.
            SourceError: the source cannot be read.
            ProtocolError: a record cannot be decoded, and `pipeline.dead-letters` is `stop`.
            UnsupportedError, SchemaError: a run would stop at a schema change, a table or a row that it cannot apply.
        """
        return asked(self.definition, lambda: explain(self.definition, records))

    def run(
        self,
        spark: SparkSession | None = None,
        *,
        once: bool = True,
        until: int | str | datetime | None = None,
        begun: Callable[[Progress], None] | None = None,
        progress: Callable[[Progress], None] | None = None,
        stopping: Callable[[], bool] | None = None,
        retrying: Callable[[Retry], None] | None = None,
        watching: Callable[[RunNow], None] | None = None,
    ) -> Summary:
        """Applies the changes of the source to the tables of the sink, from where the last run ended.

        Args:
            spark: the session to use; by default one is started, and stopped at the end.
            once: stop when everything that the source has now is applied; otherwise follow it until `stop` is called.
            until: bring all tables to exactly this point: a commit_ts, a time (UTC unless it has a zone), or a GTID.
            begun: called once the run has taken the pipeline over, with where it goes on; after each retry, too.
            progress: called after every step.
            stopping: called every second; once it returns True, the run stops after the current step. If you pass it, Ctrl-C
                is yours to handle.
            retrying: called before each wait for a retry, after a transient error.
            watching: called every second with what the run is doing, in a thread of its own; not for decisions.

        Returns:
            What was applied. `reached` is False if the source does not reach `until` yet.

        Raises:
            KeyboardInterrupt: Ctrl-C, after the current step is finished. A second Ctrl-C ends the process.
            ConfigError: the pipeline cannot run as defined, or `until` is before what has been applied.
            ProtocolError: a record could not be decoded, and `pipeline.dead-letters` is `stop`.
            FencedError: another run of the pipeline has taken over.
            SourceError, SinkError, ResourceError: source, sink or machine failed, and all retries failed too.
        """
        from changefeed.pipeline.run import run

        self._stop.clear()
        point = None if until is None else self.point(until)

        def report(state: State, now: RunNow) -> None:
            if progress is not None:
                progress(Progress.of(self.definition, state, now))

        def observe(place: str, facts: Mapping[str, Any]) -> None:
            if begun is not None and place == "run.begun":
                begun(Progress.of(self.definition, facts["state"]))

        with (
            session_for(self.definition, spark) as session,
            self._interrupts(stopping) as interrupted,
            observed(observe),
        ):

            def stops() -> bool:
                return self._stop.is_set() or interrupted()

            began = time.monotonic()
            done = run(
                self.definition, session, once=once, until=point, progress=report, stopping=stops, retrying=retrying,
                watching=watching,
            )  # fmt: skip
            return Summary.of(self.definition, done, time.monotonic() - began, stopped=stops())

    def point(self, until: int | str | datetime) -> int | str:
        """Returns the commit_ts that a value of `until` stands for; or the GTID or GTID set that it is.

        Raises:
            ConfigError: the value is none of these, or runs of this pipeline cannot stop there exactly.
        """
        from changefeed.pipeline.monitoring.holders import has_binlog

        point = moment_of(until)
        if not has_binlog(self.definition) or not (isinstance(point, str) or is_time(until)):
            return point
        has_gtids = source(self.definition.source).capabilities.cuts == "transactions"
        if has_gtids and isinstance(point, str):
            return point
        kind = "GTID" if isinstance(point, str) else "time"
        names = "a place in the binlog such as 000001:14624" + (", or the GTID of a transaction" if has_gtids else "")
        raise ConfigError(f"{until} is a {kind}, and a run of this pipeline cannot stop there exactly: name {names}")

    def stop(self) -> None:
        """Stops a `run` in another thread after its current step."""
        self._stop.set()

    def status(self, cuts: int | None = NEWEST, *, ask_source: bool = True) -> Status:
        """Reads the pipeline's state from its ledger: positions, cuts and counts; and asks its source what is left to read.

        Args:
            cuts: how many of the newest cuts to return; None for all.
            ask_source: whether to ask the source. If it does not answer, the result contains the reason.

        Raises:
            ConfigError: the ledger belongs to another pipeline.
            SinkError: the ledger cannot be read.
        """
        return asked(self.definition, lambda: status(self.definition, cuts, ask_source=ask_source))

    def dead_letters(self, *, replayed: bool = False) -> list[KeptDeadLetter]:
        """Returns the pipeline's dead letters, sorted by position. Needs no Spark if the sink's folder can be read without it.

        Args:
            replayed: whether to include the dead letters that have been replayed.

        Raises:
            ConfigError: the ledger belongs to another pipeline.
            SinkError: the table of dead letters cannot be read.
        """
        return asked(self.definition, lambda: dead_letters(self.definition, replayed=replayed))

    def replay(
        self, positions: Sequence[str] = (), *, dry_run: bool = False, spark: SparkSession | None = None
    ) -> Outcome:
        """Decodes dead letters again, with the pipeline's current options, and applies their changes.

        Args:
            positions: the dead letters to replay, as `topic:partition:offset` with or without `:index`; by default all.
            dry_run: only report what would be done.
            spark: the session to use; by default one is started if it is needed.

        Raises:
            ConfigError: there is no dead letter to replay at one of the positions.
            SinkError: the ledger or the table of dead letters cannot be read or written.
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
        """Repairs tables that a run refuses to write to, because they differ from the ledger.

        Args:
            tables: names as `database.table`; or `all`, only with `rebuild`: the next run reads the source from its start.
            how: `restore` the rows of the ledger's version, `accept` the table as it is, or `rebuild` it from the source.
            spark: the session to use; by default one is started and stopped again.

        Raises:
            ConfigError: the ledger does not have the table, or the table cannot be repaired this way.
            SinkError: the ledger is damaged.
            SourceError: the source has lost records that a rebuild needs.
        """
        from changefeed.pipeline.operations.repair import repair, start_over

        if tables == "all" and how != "rebuild":
            raise ConfigError(f'"all" can only be used with "rebuild": name the tables to {how}')
        with session_for(self.definition, spark) as session:
            if tables == "all":
                return start_over(self.definition, session)
            return repair(self.definition, session, tuple(tables), how)

    def snapshot(self, tables: Sequence[str], where: str | None = None) -> Requested:
        """Requests that tables of a server are copied again, by the run that is alive or by the next one.

        Args:
            tables: names as `database.table`.
            where: a condition in the server's SQL, for a part of the rows; None: all rows replace those of the tables.

        Raises:
            ConfigError: the source does not copy tables, or cannot copy these with this condition.
            AccessError, SourceError: the server refuses the user, or does not answer.
            SinkError: the request cannot be stored.
        """
        from changefeed.pipeline.operations.snapshot import snapshot

        return snapshot(self.definition, tables, where)

    def expire(self, older_than: timedelta = timedelta(days=7), *, dry_run: bool = False) -> Expiry:
        """Deletes the folders of renamed and dropped tables that only old cuts use.

        Args:
            older_than: minimum time since the first cut that no longer uses a folder.
            dry_run: only report what would be deleted.

        Raises:
            ConfigError: the pipeline has not done a step yet, or another `expire` is running.
            SinkError: the ledger cannot be read, or a folder cannot be deleted.
        """
        from changefeed.pipeline.operations.expire import expire

        return expire(self.definition, older_than, dry_run=dry_run)

    def missing(self) -> str | None:
        """Returns why the source cannot be read yet, such as a pattern that matches no file; None if it can be read."""
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
