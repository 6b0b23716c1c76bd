"""Checks of the source and its records: reachable, as the ledger has it, decodable, and what a run would do with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from changefeed.errors import (
    AccessError,
    ChangefeedError,
    ConfigError,
    MissingExtraError,
    NeedsSparkError,
    SinkError,
    SourceError,
)
from changefeed.model.batch import Decoded
from changefeed.model.event import Resolved, SchemaChange
from changefeed.model.names import full_name
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.patterns import table_patterns
from changefeed.pipeline.ledger import occupied, read_ledger, strangers
from changefeed.pipeline.operations.check.result import FAIL, OK, WARN, Check
from changefeed.pipeline.operations.detect import DetectedTopic, detect
from changefeed.pipeline.operations.rehearsal import ENDS, Rehearsal, lacks_ends, rehearse
from changefeed.pipeline.planning.captured import left_out
from changefeed.section import ProtocolChoice
from changefeed.sources import Source, protocol_of, record_source, source
from changefeed.stages.decode import RecordReader

_POLICY = {
    "stop": "the run will stop there; correct the options of the protocol, or set pipeline.dead-letters",
    "quarantine": "their tables will be quarantined until `changefeed dlq replay`",
    "continue": "the run will go on without them; `changefeed dlq list` shows them",
}


def check_source(definition: Definition, limit: int) -> Iterator[Check]:
    """Checks the source, and its first records up to a limit."""
    choice, opened = protocol_of(definition.source), source(definition.source)
    missing = opened.missing()
    if missing is not None:
        yield Check("source", FAIL, missing.what, missing.fix)
        return
    resumed = _resumed(definition, opened)
    yield from resumed
    if any(one.status == FAIL for one in resumed):
        return
    try:
        read = opened.sample_chunks if choice is None else record_source(definition.source).sample
        batches = list(read(limit))
    except MissingExtraError as error:
        yield Check(
            "source", WARN, f"not checked: {error}", "the message has the command; Spark itself does not need it"
        )
        return
    except NeedsSparkError as error:
        yield Check("source", WARN, f"not checked: {error}", "a run uses Spark's own client, which may support more")
        return
    except ConfigError as error:
        yield Check("source", FAIL, str(error), "the message has the fix")
        return
    except SourceError as error:
        yield Check("source", FAIL, str(error), "correct the source section, or see that what it names can be reached")
        return
    count = sum(batch.num_rows if choice else _chunks(batch)["read"] for batch in batches)
    if not count:
        yield Check("source", WARN, "reachable; it has no records yet", "follow it (changefeed run without --once)")
        return
    yield Check("source", OK, f"reachable; {count:,} records read")
    if choice is None:
        yield from _planned(definition, opened, batches, _changes(definition, batches), whole=count < limit)
        return
    try:
        reader = RecordReader(choice.name, choice.options)
        decoded = [reader(batch) for batch in batches]
    except ChangefeedError as error:
        yield Check("records", FAIL, str(error), f"correct the options of {choice.name} in source.protocol")
        return
    chunks = [reader.pack(one, batch) for one, batch in zip(decoded, batches, strict=True)]
    yield from _planned(definition, opened, chunks, _records(definition, choice, batches, decoded), whole=count < limit)


def _resumed(definition: Definition, opened: Source) -> list[Check]:
    """Compares the source with the ledger's source offset, as a run does when it begins.

    Returns:
        a failed check if a run would stop there; warnings for topics that it would go on without. Errors of the connection are
        left to the sample, and those of the ledger to its own check.
    """
    try:
        latest = read_ledger(definition).latest()
    except (ConfigError, SinkError):
        return []
    if latest is None or latest.state.source is None:
        return []
    try:
        compared = opened.compared(None, latest.state.source)
    except (MissingExtraError, AccessError, NeedsSparkError):
        return []
    except (ConfigError, SourceError) as error:
        transient = getattr(error, "transient", False)
        return (
            [] if transient else [Check("source", FAIL, str(error), "a run stops there: the message has the way out")]
        )
    fix = "nothing, if that is intended" + (": source.removed-topics is `continue`" if compared.removed else "")
    return [Check("source", WARN, note, fix) for note in compared.notes]


def _planned(
    definition: Definition, opened: Source, chunks: list[pa.RecordBatch], records: Check, *, whole: bool
) -> Iterator[Check]:
    """Yields the check of the records, and one of the tables that a run would make of them, if there is anything to say.

    Args:
        definition: the pipeline.
        opened: its source.
        chunks: of the sample.
        records: the check of the records by themselves.
        whole: whether the source has nothing behind the sample.
    """
    lenient = definition.pipeline.model_copy(update={"dead_letters": "continue"})
    try:
        rehearsal = rehearse(definition.model_copy(update={"pipeline": lenient}), opened, chunks)
    except ChangefeedError as error:
        yield records
        doubt = "" if whole else "; with more records than these a run may get further: `changefeed explain --records`"
        yield Check(
            "tables", FAIL if whole else WARN, str(error), f"a run stops there: the message has the way out{doubt}"
        )
        return
    if records.status == OK and lacks_ends(definition, opened.capabilities.cuts, rehearsal):
        what, remedy = ENDS[opened.capabilities.cuts]
        message, fix = (
            f"{records.message}: nothing is applied without {what}",
            f"{remedy}, or set pipeline.consistency to `key`",
        )
        records = Check("records", WARN, message, fix)
    incomplete = rehearsal.state.incomplete
    if records.status == OK and whole and incomplete is not None:
        records = Check("records", WARN, f"{records.message}; {incomplete}", incomplete.remedy)
    yield records
    yield from _unmatched(definition, rehearsal)
    yield from _tables(definition, rehearsal)


def _chunks(batch: pa.RecordBatch) -> Counter[str]:
    """Counts the rows of chunks by their kind: records of those that count the records read."""
    counted = Counter[str]()
    for kind, rows in zip(batch.column("kind").to_pylist(), batch.column("rows").to_pylist(), strict=True):
        counted[kind] += rows
    return counted


def _changes(definition: Definition, batches: list[pa.RecordBatch]) -> Check:
    """The check of the chunks of a source of changes."""
    counted = sum(map(_chunks, batches), Counter[str]())
    good = Counter(
        {"rows": counted["rows"], "schema changes": counted["schema"], "resolved events": counted["resolved"]}
    )
    counts = ", ".join(f"{count:,} {name}" for name, count in good.items())
    if counted["dead"]:
        message = f"dead letters: {counted['dead']:,}, beside {counts}"
        return Check("records", WARN, message, _POLICY[definition.pipeline.dead_letters])
    return Check("records", OK, counts)


def _records(
    definition: Definition, choice: ProtocolChoice, batches: list[pa.RecordBatch], decoded: list[Decoded]
) -> Check:
    dead = [letter for one in decoded for letter in one.dead]
    good = Counter[str](rows=sum(len(table) for one in decoded for table in one.tables))
    good["schema changes"] = sum(isinstance(event, SchemaChange) for one in decoded for event in one.control)
    good["resolved events"] = sum(isinstance(event, Resolved) for one in decoded for event in one.control)
    counts = ", ".join(f"{count:,} {name}" for name, count in good.items())
    if dead:
        message = f"dead letters: {len(dead):,}, beside {counts}; the first: {dead[0].error}"
        return _undecodable(
            definition, choice, batches, message, any_change=bool(good["rows"] or good["schema changes"])
        )
    return Check("records", OK, f"all decode as {choice.name}: {counts}")


def _unmatched(definition: Definition, rehearsal: Rehearsal) -> Iterator[Check]:
    """Yields a warning for the patterns of `include` that select no table of the sample or the ledger, and fit no topic."""
    chunks = rehearsal.chunks
    names = {full_name(chunk.database, chunk.table or "") for chunk in chunks if chunk.database}
    try:
        latest = read_ledger(definition).latest()
    except ChangefeedError:
        latest = None  # the check of the ledger has it
    names |= latest.state.tables.keys() | latest.state.uncaptured.keys() if latest else set()
    topics = {chunk.topic for chunk in chunks} | (set(latest.state.positions) if latest else set())
    names |= {full_name(*topic.split(".")[-2:]) for topic in topics if "." in topic}
    patterns = table_patterns(tuple(definition.pipeline.include)).patterns
    if missed := [p.text for p in patterns if p.selects and not any(map(p.matches_name, names))]:
        tables = sorted(name for name in names if not name.endswith("."))
        listed = ", ".join(tables[:20]) + (f" and {len(tables) - 20:,} more" if len(tables) > 20 else "")
        message = f"pipeline.include: no table or topic matches {', '.join(missed)}; known: {listed or 'none'}"
        yield Check("tables", WARN, message, "correct the pattern, unless its tables come later")


def _tables(definition: Definition, rehearsal: Rehearsal) -> Iterator[Check]:
    """Yields a failed check if tables or files of another program are where the pipeline would write.

    A check that is ok names the tables that are left out, because nothing shows that the producer captures them.
    """
    for sentence in left_out(rehearsal.left_out, rehearsal.chunks):
        yield Check("tables", OK, sentence)
    try:
        paths = {name: table.path for name, table in rehearsal.tables.items()}
        files = occupied(definition, paths)
        unknown_tables = [] if files else strangers(definition, paths)
    except ChangefeedError:
        return  # the checks of the sink and the ledger have it
    if files:
        what = f"{', '.join(files)}: contains files, but no table"
        yield Check("tables", FAIL, what, "give the pipeline another sink.path, or move the folder away")
    if unknown_tables:
        what = f"{', '.join(unknown_tables)}: a table that this pipeline has not written"
        fix = (
            "give the pipeline another sink.path, move the table away, or name it in sink.adopt to go on with its rows"
        )
        yield Check("tables", FAIL, what, fix)


def _undecodable(
    definition: Definition, choice: ProtocolChoice, batches: list[pa.RecordBatch], message: str, *, any_change: bool
) -> Check:
    """Returns the failed check for a record that cannot be decoded, with the likely cause: protocol, options, or damage."""
    registry = {name: str(value) for name, value in choice.options.items() if name == "schema-registry"}
    topics = detect(batches, registry)
    fitting = _fitting(topics, choice.name)
    if fitting and fitting[0] == choice.name:
        fix = f"they decode with the default options of {choice.name}: correct those in source.protocol"
        return Check("records", FAIL, message, fix)
    if fitting:
        return Check("records", FAIL, message, f"they decode as {fitting[0]}: set source.protocol to it")
    if not any_change and (stranger := _stranger(topics)):
        return Check("records", FAIL, message, f"they look like {stranger}, which changefeed does not read")
    if not any_change:
        fix = f"no change decodes: is {choice.name} the protocol of this source, with the options of its producer?"
        return Check("records", FAIL, message, fix)
    return Check("records", WARN, message, _POLICY[definition.pipeline.dead_letters])


def _stranger(topics: list[DetectedTopic]) -> str | None:
    """Returns the name of an unsupported format that the records seem to be in; None if a protocol fits some of them."""
    return None if any(topic.fits for topic in topics) else next((t.stranger for t in topics if t.stranger), None)


def _fitting(topics: list[DetectedTopic], first: str) -> list[str]:
    """Returns the protocols that decode every record of every topic with their default options; `first` comes first."""
    whole = [{fit.protocol for fit in topic.fits if fit.decoded == topic.sample} for topic in topics]
    return sorted(set[str].intersection(*whole), key=lambda name: (name != first, name)) if whole else []
