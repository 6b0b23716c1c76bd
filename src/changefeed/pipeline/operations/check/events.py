"""Checks of an event pipeline: its source, its sink, its folder and its ledger. Nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

from changefeed.errors import ChangefeedError, ConfigError, MissingExtraError, SinkError, SourceError
from changefeed.pipeline.config.events import EventDefinition
from changefeed.pipeline.events.parts import open_sink, read_ledger
from changefeed.pipeline.events.status import event_status
from changefeed.pipeline.monitoring.cuts import offset_text
from changefeed.pipeline.monitoring.holders import has_binlog
from changefeed.pipeline.monitoring.lag import lag_text, to_read_words
from changefeed.pipeline.operations.check.result import FAIL, OK, WARN, Check
from changefeed.pipeline.operations.check.sink import check_folder
from changefeed.pipeline.paths import own_folder
from changefeed.pipeline.store.base import Latest
from changefeed.sources import Backlog, source
from changefeed.storage.failures import NoCredentialsError


def event_checks(definition: EventDefinition) -> Iterator[Check]:
    """Runs the checks of an event pipeline, in the order in which a run would meet the problem."""
    yield Check(
        "definition", OK, f"{definition.source.type} → {definition.sink.protocol.name} → {definition.sink.type}"
    )
    if doubt := definition.source.doubt():
        yield Check("properties", WARN, doubt, "correct the name, unless a class of your own reads it")
    latest, ledger = _ledger(definition)
    backlog, source_check = _source(definition, latest)
    yield source_check
    yield _sink(definition)
    yield check_folder("folder", "pipeline.folder", own_folder(definition), definition)
    yield ledger
    if latest is not None:
        with suppress(ChangefeedError):  # the check of the source has it
            lag = event_status(definition, ask_source=False, backlog=backlog).lag
            yield Check("lag", OK, lag_text(lag, datetime.now(UTC)) or "nothing is known to be left")


def _ledger(definition: EventDefinition) -> tuple[Latest | None, Check]:
    try:
        latest = read_ledger(definition).latest()
    except NoCredentialsError as error:
        return None, Check("ledger", WARN, f"not checked: {error}", "give this user the credentials that a run has")
    except (ConfigError, SinkError) as error:
        return None, Check("ledger", FAIL, str(error), "the message names what is needed")
    if latest is None:
        return None, Check("ledger", OK, "none yet: the first run creates it")
    positions = [offset for of in latest.state.positions.values() for offset in of.values()]
    place = (
        f", up to {offset_text(min(positions), binlog=has_binlog(definition))}"
        if positions
        else ", inside of the first copy"
    )
    return latest, Check("ledger", OK, f"epoch {latest.epoch}, step {latest.step:,} done{place}")


def _source(definition: EventDefinition, latest: Latest | None) -> tuple[Backlog | None, Check]:
    """Checks that the source answers, and has what a run reads next; returns what is left to read, too."""
    opened, before = source(definition.source), latest.state.source if latest else None
    try:
        if (missing := opened.missing()) is not None:
            return None, Check("source", FAIL, missing.what, missing.fix)
        if before is not None:
            opened.compared(None, before)
        backlog = opened.backlog(before)
    except MissingExtraError as error:
        return None, Check("source", FAIL, str(error), "the message has the command")
    except (ConfigError, SourceError) as error:
        return None, Check(
            "source", FAIL, str(error), "correct the source section, or see that what it names can be reached"
        )
    finally:
        opened.close()
    words = [] if backlog is None else to_read_words(backlog)
    return backlog, Check("source", OK, ", ".join(["reachable", *words]))


def _sink(definition: EventDefinition) -> Check:
    """Checks that the sink answers; appends nothing."""
    try:
        sink = open_sink(definition, "")
        looked_at = sink.check()
    except MissingExtraError as error:
        return Check("sink", FAIL, str(error), "the message has the command")
    except (ConfigError, SinkError) as error:
        return Check("sink", FAIL, str(error), "correct the sink section, or see that what it names can be reached")
    return Check("sink", OK, f"{sink.location} can be written" + (f": {looked_at}" if looked_at else ""))
