"""The contract of a state store (the ledger): what one pipeline has applied, and which run may continue.

A store belongs to one pipeline. It has an *epoch* (a number that each run raises), a list of *cuts* (one for each step
that was done), the *state* after the newest cut, and at most one *plan*: that of a step that was begun and is not done.

Rule 1. **One owner.** The first `claim` creates the store, with the pipeline's name and a random id, which never change.
        If there are two first claims at once, one creates the store and the other uses it. A claim under another name raises
        `foreign`. `owner` is `changefeed:<pipeline>:<id>`; the pipeline's writes to tables carry it, so that tables of an
        older store with the same name are not mistaken for this store's.
Rule 2. **One run.** `claim` takes an epoch above every epoch before. Of runs that try to take the same epoch at once,
        exactly one returns and the others raise `FencedError`. From then on `begin` and `finish` of every older run raise
        `FencedError` and change nothing, whenever they are called and however long the run was paused. A claim must not
        fail because an older run begins or finishes a step at the same time: it counts before the claim or not at all.
Rule 3. **Durable, whole, in order.** When `begin` or `finish` has returned, the value survives the process and the machine,
        and every later `claim` and `latest` returns it. After a crash during the call, the value is stored completely or not
        at all. After an error the write may have succeeded: an implementation that can check this does so before it raises,
        and a call that raised may still count. After an error the caller ends the run and claims again.
Rule 4. **A step is begun and done.** `begin(plan)` stores what step `step + 1` will do, `finish(state)` the state after
        it. A step without writes has no `begin`. A run that claims a store with a plan that is not done gets it in
        `unfinished`, and in `begun_by` the epochs that may have carried out a part of it.
Rule 5. **Everything is verified.** What is stored is read back with checksums. A file, row or page that is missing,
        changed, or from another time raises an error that names it and the way out (`damaged`); a value that differs from
        the stored one is never returned.
Rule 6. **Formats.** Everything stored carries a format number and the version of changefeed that wrote it. A reader refuses
        a newer format with `too_new`, and changes nothing.
Rule 7. **Cost.** `claim`, `begin`, `finish` and `latest` cost the same after 100 000 steps as after 200. `history` reads no
        more than what its caller takes from it.

Methods pass the failpoints of `telemetry.py` that are named with them, so that tests can stop a run there.

A store keeps texts: `write_state` and `write_plan` make them, `read_state` and `read_plan` read them back. `cut_of` makes the cut
of a state, which is plain values for `msgspec`. The errors that the rules name are made by the functions below.
A store in a module of one's own has `SECTION`, the model of the definition's section `ledger`, and two functions: for a run
`open_store(section, pipeline, keep, session)`, for a command without Spark `open_reader(section, pipeline)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from changefeed.errors import ConfigError, FencedError, SinkError
from changefeed.pipeline.planning.actions import Plan
from changefeed.pipeline.state import Counts, State
from changefeed.sinks.ways_out import LEDGER_DAMAGED

FORMAT = 1
"""The format of all that this version of changefeed stores, and the newest that it reads."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """A table of a cut: its path below the sink's path, and its version; None if it does not exist yet, or is held."""

    path: str
    version: int | None
    held: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """The result of one step: versions of all tables that belong together.

    Attributes:
        at: when the cut was published; never earlier than the cut before it, whatever the clock shows.
        commit_ts: the barrier; None before the first barrier, and for pipelines without barriers.
        mark: the upstream's name for the barrier; None if it has none.
        tables: `database.table` -> path and version.
        wrote: paths that the step's plan names (`paths_of`) and that no table of the cut uses, in order.
        time: as `State.time`: the latest commit time in the cut, in milliseconds since 1970, where commit_ts has none.
    """

    epoch: int
    step: int
    at: datetime
    commit_ts: int | None
    mark: str | None
    tables: Mapping[str, Pinned]
    counts: Counts
    wrote: tuple[str, ...] = ()
    time: int | None = None

    @property
    def waits(self) -> bool:
        """Whether rows were pending, or tables held, when it was published."""
        return self.counts.pending > 0 or any(table.held for table in self.tables.values())

    def versions(self) -> dict[str, int]:
        """`database.table` -> version of the table."""
        return {n: t.version for n, t in self.tables.items() if t.version is not None and not t.held}

    def paths(self) -> set[str]:
        """The paths of all tables."""
        return {table.path for table in self.tables.values()}


def cut_of(epoch: int, step: int, time: datetime, state: State, wrote: tuple[str, ...]) -> Cut:
    """Creates the cut that publishes a state."""
    held = state.held
    tables = {name: Pinned(table.path, table.version, name in held) for name, table in state.tables.items()}
    return Cut(epoch, step, time, state.barrier, state.mark, tables, state.counts, wrote, state.time)


@dataclass(frozen=True, slots=True)
class Latest:
    """The current content of a store.

    Attributes:
        owner: see rule 1.
        epoch: the newest epoch.
        step: number of the last step that is done; 0 before the first.
        at: when that step was done; None before the first.
        state: the state after that step.
        unfinished: the plan of the step that was begun and is not done; None if there is none.
    """

    owner: str
    epoch: int
    step: int
    at: datetime | None
    state: State
    unfinished: Plan | None


@dataclass(frozen=True, slots=True)
class Keep:
    """The cuts that a store must keep: a number of the newest cuts, or those of a period; all if both are None."""

    cuts: int | None = None
    age: timedelta | None = None


class StoreReader(ABC):
    """Reads a store, also while a run writes to it."""

    @abstractmethod
    def latest(self) -> Latest | None:
        """Returns a consistent view of the store's current content; None if no run has created the store yet.

        Raises:
            ConfigError: the store belongs to another pipeline, or its format is too new.
            SinkError: the store cannot be read, or is damaged.
        """

    @abstractmethod
    def history(self, after: int = 0, *, newest_first: bool = False) -> Iterator[Cut]:
        """Iterates over the kept cuts of the steps after `after`, oldest first or newest first.

        Reads page by page, on demand. Returns each cut once and leaves none out, even if a run adds cuts at the same time.
        Raises the errors of `latest`.
        """


class StateStore(StoreReader):
    """A store as a run uses it. At first only `path` and `pipeline` are set; `claim` sets the rest.

    Attributes:
        path: location of the store, for messages.
        pipeline: the name of the pipeline.
        owner: see rule 1; empty until `claim`.
        epoch: the epoch of this run; 0 until `claim`.
        step: number of the last step that is done.
        state: the state after that step.
        unfinished: the plan of step `step + 1`, begun and not done, which this run must finish; None if there is none.
        begun_by: the epochs that began or continued that plan, up to this run's; empty if there is none.
    """

    path: str
    pipeline: str
    owner: str
    epoch: int
    step: int
    state: State
    unfinished: Plan | None
    begun_by: range

    @abstractmethod
    def claim(self) -> None:
        """Takes the next epoch, and reads the state.

        Passes the failpoints `epoch.before`, when the epoch is known, and `epoch.after`.

        Raises:
            ConfigError: the store belongs to another pipeline, or its format is too new.
            FencedError: another run has taken the epoch at the same moment.
            SinkError: the store cannot be read or written, or is damaged.
        """

    @abstractmethod
    def begin(self, plan: Plan) -> None:
        """Stores the plan of step `step + 1`. Passes `begun.before` and `begun.after`.

        Raises:
            FencedError: a newer run has taken over.
            SinkError: as `claim`.
        """

    @abstractmethod
    def finish(self, state: State) -> None:
        """Publishes the state after step `step + 1`, and updates `step`, `state`, `unfinished` and `begun_by`.

        Passes `done.before` and `done.after`. Raises as `begin`.
        """

    @abstractmethod
    def is_fenced(self) -> bool:
        """Whether a newer run has taken over."""


def owner_of(pipeline: str, id: str) -> str:
    """Returns the owner text that a pipeline's writes carry: the application id in Delta's transaction identifiers."""
    return f"changefeed:{pipeline}:{id}"


def foreign(path: str) -> ConfigError:
    """Returns the error for a store that a pipeline with another name has created."""
    return ConfigError(
        f"{path} is the ledger of another pipeline. Set another sink.path; or, to continue that pipeline, set pipeline.name to "
        "its name"
    )


def too_new(path: str, format: int, version: str, own_version: str) -> ConfigError:
    """Returns the error for a store in a newer format; it names the version of changefeed that is needed."""
    return ConfigError(
        f"{path} is in format {format}, written by changefeed {version}; this is changefeed {own_version}, which reads formats "
        f"up to {FORMAT}: use changefeed {version} or newer"
    )


def damaged(path: str, why: str) -> SinkError:
    """Returns the error for a damaged store."""
    return SinkError(f"{path}: the ledger is damaged: {why}. {LEDGER_DAMAGED}")


def taken_over(path: str, pipeline: str, newest: int, epoch: int) -> FencedError:
    """Returns the error for a run that a newer run has fenced off."""
    return FencedError(
        f"{path}: epoch {newest} of pipeline {pipeline} has taken over; this run is epoch {epoch} and stops. Was the same "
        "pipeline started twice?"
    )


def taken_at_once(path: str, pipeline: str, epoch: int) -> FencedError:
    """Returns the error for a run that lost the race for an epoch."""
    return FencedError(
        f"{path}: another run of pipeline {pipeline} took epoch {epoch} at the same moment; this one stops. Was the same "
        "pipeline started twice?"
    )
