"""The progress of a pipeline, read from its ledger: `changefeed status`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.dead_letters import table_of
from changefeed.pipeline.ledger import read_ledger
from changefeed.pipeline.operations.expire import readable
from changefeed.pipeline.operations.expired import gone
from changefeed.pipeline.paths import own_folder
from changefeed.pipeline.state import State
from changefeed.pipeline.store.base import Reading

NEWEST = 100  # cuts that are shown unless more are asked for


def status(definition: Definition, cuts: int | None = NEWEST) -> dict[str, Any]:
    """Positions, cuts, and where everything that was read has gone, as JSON values.

    `cuts` has one entry a barrier, oldest first: its commit_ts, its name (the last transaction's GTID, or a checkpoint's GTID
    set) where the upstream has names instead, and the version of every table that belongs to it. Cuts whose tables have
    expired are left out. `older_cuts` is there, and true, where older ones are left out because of the number asked for.
    `counts` adds up: rows = applied + repeated + pending.

    Args:
        definition: the pipeline.
        cuts: how many of the newest; None: all.

    Raises:
        ConfigError: the ledger is another pipeline's.
        SinkError: the ledger cannot be read.
    """
    ledger = read_ledger(definition)
    latest = ledger.latest()
    state = latest.state if latest else State()
    published = list(islice(_published(ledger, definition), None if cuts is None else cuts + 1))
    return {
        "pipeline": definition.pipeline.name,
        "epoch": latest.epoch if latest else 0,
        "positions": {t: {str(p): n for p, n in sorted(of.items())} for t, of in sorted(state.positions.items())},
        "cuts": published[:cuts][::-1],
        **({"older_cuts": True} if cuts is not None and len(published) > cuts else {}),
        "pending": state.counts.pending,
        "dead_letters": table_of(definition).waiting(),
        "counts": asdict(state.counts),
    }


def _published(ledger: Reading, definition: Definition) -> Iterator[dict[str, Any]]:
    """The cuts that can be read, the newest of each barrier, newest first."""
    expired, seen = gone(own_folder(definition)), set[tuple[str, int]]()
    for cut in ledger.history(newest_first=True):
        if not readable(cut, expired) or (cut.commit_ts is None and not cut.tables):
            continue
        key = ("step", cut.step) if cut.commit_ts is None else ("commit_ts", cut.commit_ts)
        if key not in seen:
            seen.add(key)
            name = {"name": cut.mark} if cut.mark else {}
            yield {"commit_ts": cut.commit_ts, **name, "tables": cut.versions()}
