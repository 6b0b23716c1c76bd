"""Checks whether a pipeline can run on this machine: `changefeed check`.

One function per check, in the order in which a run would meet the problem. A failed check names the fix; checks that
depend on it are skipped. No files are left behind, and Spark is started only for a catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from changefeed.errors import ChangefeedError, ConfigError, MissingExtraError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.events import AnyDefinition, EventDefinition
from changefeed.pipeline.config.load import load_any
from changefeed.pipeline.exclusion import tables_need_it
from changefeed.pipeline.operations.check.catalog import check_catalog, check_commits
from changefeed.pipeline.operations.check.events import event_checks
from changefeed.pipeline.operations.check.result import FAIL, OK, WARN, Check, CheckReport
from changefeed.pipeline.operations.check.sink import check_folder, check_ledger
from changefeed.pipeline.operations.check.source import check_source
from changefeed.pipeline.paths import own_folder, tables_folder
from changefeed.redaction import redact
from changefeed.sources import protocol_of

__all__ = ["Check", "CheckReport", "check", "checks"]

_RECORDS = 1000


def check(path: str | Path, records: int = _RECORDS) -> Iterator[Check]:
    """Runs the checks of a pipeline, and yields the result of each as soon as it is done.

    Args:
        path: the YAML file that defines the pipeline.
        records: maximum number of records of the source to decode.
    """
    try:
        definition = load_any(path)
    except ConfigError as error:
        fix = (
            "correct the file"
            if Path(path).exists()
            else "correct the path; `changefeed init` writes a file with comments"
        )
        yield Check("definition", FAIL, redact(str(error)), fix)
        return
    yield from checks(definition, records)


def checks(definition: AnyDefinition, records: int = _RECORDS) -> Iterator[Check]:
    """Runs the checks of a definition that has been loaded."""
    of_kind = event_checks(definition) if isinstance(definition, EventDefinition) else _checks(definition, records)
    for check in of_kind:
        yield replace(check, message=redact(check.message))


def _checks(definition: Definition, records: int) -> Iterator[Check]:
    choice = protocol_of(definition.source)
    parts = (definition.source.type, choice.name if choice else "", definition.sink.type)
    yield Check("definition", OK, " → ".join(filter(None, parts)))
    if doubt := definition.source.doubt():
        yield Check("properties", WARN, doubt, "correct the name, unless a class of your own reads it")
    yield from _spark()
    yield from check_source(definition, records)
    once = tables_need_it(definition)
    folders = [check_folder("sink", "sink.path", tables_folder(definition), definition, once=once)]
    if definition.pipeline.folder is not None:
        folders.append(check_folder("folder", "pipeline.folder", own_folder(definition), definition))
    yield from folders
    if all(folder.status != FAIL for folder in folders):
        yield from check_commits(definition)
        yield from check_ledger(definition)
    yield from check_catalog(definition)


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
