"""The contract of a state store: what one pipeline has applied, and which run may go on.

A store belongs to one pipeline. It holds an *epoch* (a number that each run raises), a list of *cuts* (one for each step
that was done), the *state* after the newest of them, and at most one *plan*: of the step that was begun and is not done.

Rule 1. **One owner.** The first `claim` creates the store, with the pipeline's name and a random id. Both never change
        again. Of two first claims at once, one creates the store and the other uses it. A claim under another name raises
        `foreign`. `owner` is `changefeed:<pipeline>:<id>`; the pipeline's writes to tables carry it, so that tables which an
        older store of the same name has written are not taken for this one's.
Rule 2. **One run.** `claim` takes an epoch above every epoch before. Of runs that try to take the same epoch at once,
        exactly one returns and the others raise `FencedError`. From then on `begin` and `finish` of every older run raise
        `FencedError` and change nothing, whenever they are called and however long the run was paused. A claim must not
        fail because an older run begins or finishes a step at the same time: it counts before the claim or not at all.
Rule 3. **Durable, whole, in order.** When `begin` or `finish` has returned, the value survives the process and the machine,
        and every later `claim` and `latest` sees it. After a crash in the middle, it is there as a whole or not at all. After an
        error the write may have landed: an implementation that can look does so before it raises, and a call that raised may
        still count. The caller gives the run up after an error and claims again.
Rule 4. **A step is begun and done.** `begin(plan)` writes down what step `step + 1` will do, `finish(state)` the state after
        it. A step without writes has no `begin`. A run that claims a store with a plan that is not done finds it in
        `unfinished`, and in `begun_by` the epochs that may have carried out a part of it.
Rule 5. **Nothing is believed unseen.** What is stored is read back with checksums. A file, row or page that is missing,
        changed, or from another time raises an error that names it and the way out (`damaged`); it never yields another
        value than the one that was stored.
Rule 6. **Formats.** Everything stored carries a format number and the version of changefeed that wrote it. A reader refuses
        a newer format with `too_new`, and changes nothing.
Rule 7. **Cost.** `claim`, `begin`, `finish` and `latest` cost the same after 100 000 steps as after 200. `history` reads no
        more than what its caller takes from it.

Methods pass the failpoints of `failpoint.py` that are named with them, so that tests can stop a run there.

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

FORMAT = 1
"""The format of all that this version of changefeed stores, and the newest that it reads."""

WAY_OUT = (
    "Restore it together with the tables and _changefeed/pending, or delete it and rebuild all tables: changefeed repair "
    "--rebuild --all"
)


@dataclass(frozen=True, slots=True)
class Pinned:
    """A table of a cut: its path below the sink's, and its version; None while there is no table. Held: in no cut."""

    path: str
    version: int | None
    held: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """One step that was done: versions of all tables that belong together.

    Attributes:
        at: time when it was published; never before the time of the cut before it, whatever the clock shows.
        commit_ts: the barrier; None before the first one, and without barriers.
        mark: the upstream's name for the barrier, if it has one.
        tables: `database.table` -> where it lies.
        wrote: paths that the step's plan names (`paths_of`) and that no table of the cut uses, in order.
    """

    epoch: int
    step: int
    at: datetime
    commit_ts: int | None
    mark: str | None
    tables: Mapping[str, Pinned]
    counts: Counts
    wrote: tuple[str, ...] = ()

    def versions(self) -> dict[str, int]:
        """Table -> the version that a reader pins."""
        return {n: t.version for n, t in self.tables.items() if t.version is not None and not t.held}

    def paths(self) -> set[str]:
        """The paths of all tables."""
        return {table.path for table in self.tables.values()}


def cut_of(epoch: int, step: int, at: datetime, state: State, wrote: tuple[str, ...]) -> Cut:
    """The cut that publishes a state."""
    held = state.held
    tables = {name: Pinned(table.path, table.version, name in held) for name, table in state.tables.items()}
    return Cut(epoch, step, at, state.barrier, state.mark, tables, state.counts, wrote)


@dataclass(frozen=True, slots=True)
class Latest:
    """A store as it is now.

    Attributes:
        owner: see rule 1.
        epoch: the newest one taken.
        step: the last step that is done; 0 before the first.
        at: when it was; None before the first.
        state: after it.
        unfinished: the plan of the step that was begun and is not done.
    """

    owner: str
    epoch: int
    step: int
    at: datetime | None
    state: State
    unfinished: Plan | None


@dataclass(frozen=True, slots=True)
class Keep:
    """The cuts that a store keeps at least: a number of the newest, or those of a period; None of both: all."""

    cuts: int | None = None
    age: timedelta | None = None


class StoreReader(ABC):
    """The readable part of a store, usable beside a run."""

    @abstractmethod
    def latest(self) -> Latest | None:
        """The store as it is now, all of one moment; None when no run has created it yet.

        Raises:
            ConfigError: the store is another pipeline's, or too new.
            SinkError: it cannot be read, or is damaged.
        """

    @abstractmethod
    def history(self, after: int = 0, *, newest_first: bool = False) -> Iterator[Cut]:
        """The cuts of the steps above `after`, oldest first or newest first; those that are kept.

        It reads page by page, on demand. Each cut comes once and none is left out, even if a run adds cuts meanwhile.
        It raises the errors of `latest`.
        """


class StateStore(StoreReader):
    """The store as one run holds it: at first only `path` and `pipeline` are set, the rest by `claim`.

    Attributes:
        path: where the store lies; for messages.
        pipeline: the name of the pipeline.
        owner: see rule 1; empty until `claim`.
        epoch: of this run; 0 until `claim`.
        step: the last step that is done.
        state: after that step.
        unfinished: a plan that was begun and not done, for this run to finish; its step is `step + 1`.
        begun_by: the epochs that have begun it, or gone on with it: from the first that did to this one. Else empty.
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
            ConfigError: the store is another pipeline's, or too new.
            FencedError: another run has taken the epoch at the same moment.
            SinkError: the store cannot be read or written, or is damaged.
        """

    @abstractmethod
    def begin(self, plan: Plan) -> None:
        """Writes down what step `step + 1` will do. Passes `begun.before` and `begun.after`.

        Raises:
            FencedError: a newer run has taken over.
            SinkError: as `claim`.
        """

    @abstractmethod
    def finish(self, state: State) -> None:
        """Publishes the state after step `step + 1`; `step`, `state`, `unfinished` and `begun_by` follow.

        Passes `done.before` and `done.after`. Raises as `begin`.
        """

    @abstractmethod
    def is_fenced(self) -> bool:
        """Whether a newer run has taken over."""


def owner_of(pipeline: str, id: str) -> str:
    """The name of a pipeline in its writes: the application id in Delta's transaction identifiers."""
    return f"changefeed:{pipeline}:{id}"


def foreign(path: str) -> ConfigError:
    """The error for a store that a pipeline of another name has begun."""
    return ConfigError(
        f"{path} is the ledger of another pipeline: give this one a folder of its own (sink.path), or the name that the other "
        "has (pipeline.name) if it is to go on with its work"
    )


def too_new(path: str, format: int, version: str, own: str) -> ConfigError:
    """The error for a store of a newer format; it names the version of changefeed that is needed."""
    return ConfigError(
        f"{path} is in format {format}, written by changefeed {version}; this is changefeed {own}, which reads formats up to "
        f"{FORMAT}: use changefeed {version} or newer"
    )


def damaged(path: str, why: str) -> SinkError:
    """The error for a store that is not as it was written."""
    return SinkError(f"{path}: the ledger is damaged: {why}. {WAY_OUT}")


def taken_over(path: str, pipeline: str, newest: int, epoch: int) -> FencedError:
    """The error for a run that a newer one has fenced."""
    return FencedError(
        f"{path}: epoch {newest} of pipeline {pipeline} has taken over; this run is epoch {epoch} and stops. Is the same "
        "pipeline started twice?"
    )


def taken_at_once(path: str, pipeline: str, epoch: int) -> FencedError:
    """The error for a run that lost a race for an epoch."""
    return FencedError(
        f"{path}: another run of pipeline {pipeline} took epoch {epoch} at the same moment; this one stops. Is the same "
        "pipeline started twice?"
    )
