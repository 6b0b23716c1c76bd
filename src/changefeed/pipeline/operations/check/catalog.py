"""The checks of catalogs: that in which tables have names, and that through which a sink commits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from changefeed.errors import ChangefeedError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.ledger import read_ledger
from changefeed.pipeline.operations.check.result import FAIL, OK, WARN, Check
from changefeed.pipeline.paths import tables_folder
from changefeed.pipeline.registration import outlook, written_paths
from changefeed.pipeline.state import State
from changefeed.pipeline.tables import folder_of
from changefeed.sinks import catalog_trial


def check_commits(definition: Definition) -> Iterator[Check]:
    """Tries the catalog through which the sink commits; nothing if it commits without one."""
    try:
        seen = catalog_trial(definition.sink, folder_of(definition, tables_folder(definition)))
    except ChangefeedError as error:
        yield Check(
            "catalog", FAIL, str(error), "correct sink.catalog-properties, or see that the catalog can be reached"
        )
        return
    if seen is not None:
        yield Check("catalog", OK, seen.answer)
        for doubt in seen.doubts:
            yield Check("catalog", WARN, doubt, "the message has the way out; a run stops at such a table")


def check_catalog(definition: Definition) -> Iterator[Check]:
    """Compares the catalog with the ledger, and makes and removes an entry; nothing if the definition names no catalog."""
    state = State()
    with suppress(ChangefeedError):  # the check of the ledger has it
        latest = read_ledger(definition).latest()
        state = latest.state if latest else state
    try:
        seen = outlook(definition, written_paths(state), state.left, tries=True)
    except ChangefeedError as error:
        yield Check("catalog", FAIL, str(error), "the message names what is needed; the tables need no catalog")
        return
    if seen is None:
        return
    if seen.sentences:
        fix = "the message has the way out; until then these tables are opened by path"
        yield Check("catalog", WARN, ". ".join(seen.sentences), fix)
    elif not seen.lasts:
        fix = "set spark.sql.catalogImplementation to `hive` in the section `spark`, and see the guide *Tables by name*"
        yield Check("catalog", WARN, "the session's catalog is in memory, and ends with Spark's process", fix)
    else:
        todo = f"; {seen.missing} to be made, {seen.stale} to be removed" if seen.missing or seen.stale else ""
        yield Check("catalog", OK, f"answers; {len(seen.names):,} tables have names{todo}")
