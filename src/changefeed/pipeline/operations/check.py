"""Checks whether a pipeline can run on this machine: `changefeed check`.

One function per check, in the order in which a run would meet the problem. A failed check names the fix; checks that
depend on it are skipped. No files are left behind, and Spark is not started.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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
from changefeed.pipeline.config.load import load
from changefeed.pipeline.config.patterns import table_patterns
from changefeed.pipeline.guard import Guard
from changefeed.pipeline.ledger import ledger_name, occupied, read_ledger, strangers
from changefeed.pipeline.operations.detect import DetectedTopic, detect
from changefeed.pipeline.operations.expire import old_folders
from changefeed.pipeline.operations.expired import gone
from changefeed.pipeline.operations.rehearsal import ENDS, Rehearsal, lacks_ends, rehearse
from changefeed.pipeline.operations.status import listed
from changefeed.pipeline.paths import tables_folder
from changefeed.pipeline.planning.captured import left_out
from changefeed.pipeline.store.base import Latest, foreign
from changefeed.pipeline.tables import open_tables
from changefeed.redaction import redact
from changefeed.sources import Source, protocol_of, record_source, source
from changefeed.sources.section import ProtocolChoice
from changefeed.stages.decode import RecordReader
from changefeed.storage import folder_at, is_object_store
from changefeed.storage.base import unconditional
from changefeed.storage.failures import NoCredentialsError

OK, WARN, FAIL = "ok", "warn", "fail"
_RECORDS = 1000
_IN_SPARK = ("hdfs", "webhdfs", "swebhdfs", "viewfs")  # of Hadoop's client, which pyspark brings along
_BY_SPARK = "`changefeed status` reads it through Spark"
_JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
_POLICY = {
    "stop": "the run will stop there; correct the options of the protocol, or set pipeline.dead-letters",
    "quarantine": "their tables will be quarantined until `changefeed dlq replay`",
    "continue": "the run will go on without them; `changefeed dlq list` shows them",
}


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check of a pipeline.

    Attributes:
        name: what was checked: `definition`, `java`, `jars`, `pyspark`, `properties`, `source`, `records`, `tables`, `sink`,
            `ledger`, `cut` or `folders`.
        status: `ok`; `warn`, if a run may still succeed; or `fail`.
        message: what was found.
        fix: what to do about it; None if nothing has to be done.
    """

    name: str
    status: str
    message: str
    fix: str | None = None

    def lines(self) -> list[str]:
        """Formats the result as lines of text for people."""
        return [f"{self.status:<5} {self.name:<11} {self.message}", *([f"      → {self.fix}"] if self.fix else [])]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The results of all checks of a pipeline; `print` shows them as `changefeed check` does.

    Attributes:
        checks: one result for each check, in the order in which they were made.
    """

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(check.status != FAIL for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON document of `changefeed check --json`."""
        return {"ok": self.ok, "checks": [asdict(check) for check in self.checks]}

    def __str__(self) -> str:
        return "\n".join(line for check in self.checks for line in check.lines())


def check(path: str | Path, records: int = _RECORDS) -> Iterator[Check]:
    """Runs the checks of a pipeline, and yields the result of each as soon as it is done.

    Args:
        path: the YAML file that defines the pipeline.
        records: maximum number of records of the source to decode.
    """
    try:
        definition = load(path)
    except ConfigError as error:
        fix = (
            "correct the file"
            if Path(path).exists()
            else "correct the path; `changefeed init` writes a file with comments"
        )
        yield Check("definition", FAIL, redact(str(error)), fix)
        return
    yield from checks(definition, records)


def checks(definition: Definition, records: int = _RECORDS) -> Iterator[Check]:
    """Runs the checks of a definition that has been loaded."""
    for one in _checks(definition, records):
        yield replace(one, message=redact(one.message))


def _checks(definition: Definition, records: int) -> Iterator[Check]:
    choice = protocol_of(definition.source)
    parts = (definition.source.type, choice.name if choice else "", definition.sink.type)
    yield Check("definition", OK, " → ".join(filter(None, parts)))
    if doubt := definition.source.doubt():
        yield Check("properties", WARN, doubt, "correct the name, unless a class of your own reads it")
    yield from _spark()
    yield from _source(definition, records)
    sink = _sink(tables_folder(definition), definition)
    yield sink
    if sink.status != FAIL:
        yield from _ledger(definition)


def _spark() -> Iterator[Check]:
    from changefeed.spark_runtime import jars, java

    def found_jars() -> str:
        return f"{len(jars.paths('delta', 'kafka'))} jars of Delta and Kafka are here"

    if find_spec("pyspark") is None:
        yield Check("pyspark", FAIL, "pyspark is not installed", str(MissingExtraError("changefeed run", "spark")))
    try:
        chosen = java.find()
    except ChangefeedError as error:
        yield Check("java", FAIL, str(error), "see the command in the message; or point JAVA_HOME at Java 17 or 21")
    else:
        if ignored := java.passed_over(chosen):
            yield Check("java", WARN, ignored, "correct or unset JAVA_HOME")
        else:
            yield Check("java", OK, f"{chosen.version} in {chosen.home}")
    yield _tried("jars", found_jars, "they are fetched once: run this once with a connection to a Maven repository")


def _tried(name: str, attempt: Callable[[], str], fix: str) -> Check:
    try:
        return Check(name, OK, attempt())
    except ChangefeedError as error:
        return Check(name, FAIL, str(error), fix)


def _source(definition: Definition, limit: int) -> Iterator[Check]:
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
    fix = "nothing, if that is intended: source.removed-topics is `continue`"
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
        message = f"{records.message}; {incomplete}"
        records = Check(
            "records", WARN, message, "wait for the others, or set pipeline.incomplete-transactions to `apply`"
        )
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
        known = ", ".join(tables[:20]) + (f" and {len(tables) - 20:,} more" if len(tables) > 20 else "")
        message = f"pipeline.include: no table or topic matches {', '.join(missed)}; known: {known or 'none'}"
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
        what = f"{', '.join(files)}: contains files, but no Delta table"
        yield Check("tables", FAIL, what, "give the pipeline another sink.path, or move the folder away")
    if unknown_tables:
        what = f"{', '.join(unknown_tables)}: a Delta table that this pipeline has not written"
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


def _sink(folder: str, definition: Definition) -> Check:
    scheme = urlsplit(folder).scheme
    if scheme not in ("", "file"):
        return _url(folder, scheme, definition)
    try:
        _try_folder(Path(urlsplit(folder).path))
    except OSError as error:
        message = f"{folder} cannot be written: {error.strerror or error}"
        return Check("sink", FAIL, message, "correct sink.path, or give this user the right to write there")
    return Check("sink", OK, f"{folder} can be written")


def _url(url: str, scheme: str, definition: Definition) -> Check:
    """Checks a sink at a URL: Spark needs a jar for its file system, and this process a package to reach it."""
    if is_object_store(url):
        return _object_store(url, definition)
    if scheme not in _IN_SPARK and not any(name in definition.spark for name in _JARS):
        what = f"Spark has no file system for {scheme}:// among its jars"
        return Check("sink", FAIL, what, "name its jar in `spark: {spark.jars.packages: …}`")
    try:
        _try_url(url)
    except MissingExtraError as error:
        return Check(
            "sink", WARN, f"{url} not checked: {error}", "a run does not need it: it uses Spark's own file system"
        )
    except ConfigError as error:
        return Check(
            "sink", WARN, f"{url} not checked: {error}", "install it to have this checked; a run does not need it"
        )
    except Exception as error:  # raised by the package for the scheme
        reason = " ".join(str(error).split()) or type(error).__name__
        fix = "correct sink.path, or see that it can be reached with the credentials that this user has"
        return Check("sink", FAIL, f"{url} cannot be written: {reason:.300}", fix)
    return Check("sink", OK, f"{url} can be written")


def _object_store(url: str, definition: Definition) -> Check:
    """Creates a file in the sink's folder, tries to create it again, and deletes it."""
    name = f".changefeed-check-{uuid.uuid4().hex}"
    try:
        folder = folder_at(url, definition.storage, definition.spark)
        assert folder is not None
        folder.create(name, b"first")
        is_conditional = not folder.create(name, b"second")
        folder.delete([name])
        if not is_conditional:
            raise unconditional(url)
    except NoCredentialsError as error:
        return Check("sink", WARN, f"{url} not checked: {error}", "a run may have them from Spark's own configuration")
    except ConfigError as error:
        return Check("sink", FAIL, str(error), "the message names what is needed")
    except SinkError as error:
        return Check(
            "sink", FAIL, f"{url} cannot be written: {error}", "correct sink.path, or see that it can be reached"
        )
    return Check("sink", OK, f"{url} can be written")


def _try_folder(folder: Path) -> None:
    """Creates a file and deletes it again, in the folder or in its nearest parent that exists."""
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"{there} is not a folder")
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise OSError(error.errno, f"{there} does not allow new files ({error.strerror})") from error


def _try_url(url: str) -> None:
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtraError(f"sink.path {urlsplit(url).scheme}://", "spark") from error
    name = f".changefeed-check-{os.getpid()}"
    try:
        system, folder = fsspec.core.url_to_fs(url)
        system.pipe_file(f"{folder}/{name}", b"")
        system.rm_file(f"{folder}/{name}")
    except (ValueError, ImportError) as error:
        raise ConfigError(str(error)) from error


def _ledger(definition: Definition) -> Iterator[Check]:
    path = ledger_name(definition)
    name = definition.pipeline.name
    try:
        ledger = read_ledger(definition)
    except NeedsSparkError as error:
        yield Check("ledger", WARN, f"not checked: {error}", _BY_SPARK)
        return
    except ConfigError as error:
        yield Check("ledger", FAIL, str(error), "the message names what is needed")
        return
    except SinkError as error:
        yield _unreachable(path, error)
        return
    try:
        latest = ledger.latest()
    except NoCredentialsError as error:
        yield Check("ledger", WARN, f"not checked: {error}", _BY_SPARK)
        return
    except ConfigError as error:
        if str(error) != str(foreign(path)):
            yield Check("ledger", FAIL, str(error), "the message names what is needed")
            return
        fix = f"give each pipeline a sink.path of its own, or set pipeline.name to the one that began {path}"
        yield Check("ledger", FAIL, f"{path} belongs to another pipeline than {name}", fix)
        return
    except SinkError as error:
        yield _unreachable(path, error)
        return
    if latest is None:
        yield Check("ledger", OK, "none yet: the first run creates it")
        return
    barrier = latest.state.barrier
    reached = "" if barrier is None else f", up to {barrier}"
    steps = f"step {latest.step:,} done{reached}" if latest.step else "no step done"
    yield Check("ledger", OK, f"epoch {latest.epoch}, {steps}")
    compared = _cut(definition, latest)
    if compared is not None:
        yield compared
    with suppress(MissingExtraError, NeedsSparkError):  # the check of the sink has it
        yield from _old_folders(definition, latest)


def _old_folders(definition: Definition, latest: Latest) -> Iterator[Check]:
    if folders := old_folders(definition, latest, gone(definition)):
        what = f"no tables any more, kept for older cuts: {listed(folders)}"
        yield Check("folders", OK, what, "`changefeed expire` deletes those that no cut has used for 7 days")


def _cut(definition: Definition, latest: Latest) -> Check | None:
    """Compares the tables of the newest cut with the ledger, as a run does when it begins; None if that needs Spark."""
    tables = open_tables(definition).owned_by(latest.owner)
    if tables.needs_session or latest.unfinished is not None:  # an unfinished step has written some of them
        return None
    state, looked = latest.state, 0
    written = {t.path: t.written for t in state.tables.values() if t.written}
    guard = Guard(tables, written, state.left, latest.epoch + 1, latest.step + 1, (), definition.sink.adopts)
    for name, table in state.tables.items():
        if table.written is not None and not definition.pipeline.excludes(name):
            try:
                guard.look(table.path, table.written)
            except SinkError as error:
                return Check("cut", FAIL, str(error), "the message has the ways out")
            looked += 1
    return Check("cut", OK, f"{looked:,} {'table' if looked == 1 else 'tables'} as in the ledger") if looked else None


def _unreachable(path: str, error: SinkError) -> Check:
    if error.transient and urlsplit(path).scheme in _IN_SPARK:  # with settings of Hadoop's that only Spark may have
        return Check("ledger", WARN, f"not checked: {error}", _BY_SPARK)
    away = "see that it can be reached, with the credentials that this user has"
    damaged = "restore it from a copy, or start again with an empty sink.path"
    return Check("ledger", FAIL, str(error), away if error.transient else damaged)
