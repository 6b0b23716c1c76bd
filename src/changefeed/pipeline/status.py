"""What a pipeline has done so far, read from its ledger: `changefeed status`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from changefeed.pipeline.definition import Definition
from changefeed.pipeline.expire import readable
from changefeed.pipeline.expired import gone
from changefeed.pipeline.ledger import cuts, epoch, owner
from changefeed.pipeline.paths import own_folder
from changefeed.pipeline.state import State
from changefeed.sinks.delta.read import query


def status(definition: Definition) -> dict[str, Any]:
    """Positions, cuts, and where everything that was read has gone, as JSON values.

    `cuts` has one entry a barrier, oldest first: its commit_ts, its name (the last transaction's GTID, or a checkpoint's GTID
    set) where the upstream has names instead, and the version of every table that belongs to it. Cuts whose tables have
    expired are left out.
    `counts` adds up: rows = applied + repeated + pending.

    Raises:
        ConfigError: the ledger is another pipeline's.
        SinkError: the ledger cannot be read.
    """
    folder = own_folder(definition)
    owner(definition)
    found = cuts(f"{folder}/ledger")
    state = found[-1].state if found else State()
    letters = query(f"{folder}/dead_letters", "SELECT count(*) AS n FROM t WHERE replayed IS NULL")
    expired = gone(folder)
    published: dict[int | None, dict[str, Any]] = {}
    for cut in (cut for cut in found if readable(cut, expired)):
        if cut.state.barrier is not None or cut.state.tables:
            key = cut.state.barrier if cut.state.barrier is not None else cut.step
            name = {"name": cut.state.mark} if cut.state.mark else {}
            published[key] = {"commit_ts": cut.state.barrier, **name, "tables": cut.state.versions()}
    return {
        "pipeline": definition.pipeline.name,
        "epoch": epoch(f"{folder}/ledger"),
        "positions": {t: {str(p): n for p, n in sorted(of.items())} for t, of in sorted(state.positions.items())},
        "cuts": list(published.values()),
        "pending": state.counts.pending,
        "dead_letters": letters[0]["n"] if letters else 0,
        "counts": asdict(state.counts),
    }
