"""Checks of the sink and the ledger: writable, whole, of this pipeline, and with the tables of the newest cut."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from changefeed.errors import (
    ChangefeedError,
    ConfigError,
    MissingExtraError,
    NeedsSparkError,
    SinkError,
)
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.events import AnyDefinition, spark_of
from changefeed.pipeline.guard import Guard
from changefeed.pipeline.ledger import ledger_name, read_ledger
from changefeed.pipeline.monitoring.cuts import cut_text
from changefeed.pipeline.monitoring.holders import has_binlog, held_text
from changefeed.pipeline.monitoring.lag import lag_text
from changefeed.pipeline.monitoring.texts import clock_text
from changefeed.pipeline.operations.check.result import FAIL, OK, WARN, Check
from changefeed.pipeline.operations.expire import old_folders
from changefeed.pipeline.operations.expired import read_deleted_folders
from changefeed.pipeline.operations.status import listed, status
from changefeed.pipeline.store.base import Latest, foreign
from changefeed.pipeline.store.hadoop import check_file_system
from changefeed.pipeline.tables import open_tables
from changefeed.storage.base import unconditional
from changefeed.storage.failures import NoCredentialsError
from changefeed.storage.folders import folder_at, is_object_store

_IN_SPARK = ("hdfs", "webhdfs", "swebhdfs", "viewfs")  # of Hadoop's client, which pyspark brings along
_BY_SPARK = "`changefeed status` reads it through Spark"
_JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")


def check_folder(name: str, option: str, folder: str, definition: AnyDefinition, *, once: bool = True) -> Check:
    """Checks that a folder can be written.

    Args:
        name: that of the check.
        option: the one that has the folder.
        folder: the folder.
        definition: the pipeline.
        once: whether of two files with one name the storage must refuse one: see `pipeline.exclusion`.
    """
    scheme = urlsplit(folder).scheme
    if scheme not in ("", "file"):
        return _url(name, option, folder, scheme, definition, once=once)
    try:
        _try_folder(Path(urlsplit(folder).path))
    except OSError as error:
        message = f"{folder} cannot be written: {error.strerror or error}"
        return Check(name, FAIL, message, f"correct {option}, or give this user the right to write there")
    return Check(name, OK, f"{folder} can be written")


def _url(name: str, option: str, url: str, scheme: str, definition: AnyDefinition, *, once: bool) -> Check:
    """Checks a folder at a URL: Spark needs a jar for its file system, and this process a package to reach it."""
    if is_object_store(url):
        return _object_store(name, option, url, definition, once=once)
    try:
        if once:
            check_file_system(url, spark_of(definition).get)
    except ConfigError as error:
        return Check(name, FAIL, str(error), "the message names what is needed")
    if scheme not in _IN_SPARK and not any(jars in spark_of(definition) for jars in _JARS):
        what = f"Spark has no file system for {scheme}:// among its jars"
        return Check(name, FAIL, what, "name its jar in `spark: {spark.jars.packages: …}`")
    try:
        _try_url(url)
    except MissingExtraError as error:
        return Check(
            name, WARN, f"{url} not checked: {error}", "a run does not need it: it uses Spark's own file system"
        )
    except ConfigError as error:
        return Check(
            name, WARN, f"{url} not checked: {error}", "install it to have this checked; a run does not need it"
        )
    except Exception as error:  # raised by the package for the scheme
        reason = " ".join(str(error).split()) or type(error).__name__
        fix = f"correct {option}, or see that it can be reached with the credentials that this user has"
        return Check(name, FAIL, f"{url} cannot be written: {reason:.300}", fix)
    return Check(name, OK, f"{url} can be written")


def _object_store(name: str, option: str, url: str, definition: AnyDefinition, *, once: bool) -> Check:
    """Creates a file in the folder, tries to create it again, and deletes it."""
    probe = f".changefeed-check-{uuid.uuid4().hex}"
    try:
        folder = folder_at(url, definition.storage, spark_of(definition))
        assert folder is not None
        folder.create(probe, b"first")
        is_conditional = not folder.create(probe, b"second")
        folder.delete([probe])
        if once and not is_conditional:
            raise unconditional(url)
    except NoCredentialsError as error:
        return Check(name, WARN, f"{url} not checked: {error}", "a run may have them from Spark's own configuration")
    except ConfigError as error:
        return Check(name, FAIL, str(error), "the message names what is needed")
    except SinkError as error:
        return Check(
            name, FAIL, f"{url} cannot be written: {error}", f"correct {option}, or see that it can be reached"
        )
    return Check(name, OK, f"{url} can be written")


def _try_folder(folder: Path) -> None:
    """Creates a file and deletes it again, in the folder or in its nearest parent that exists."""
    nearest = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(f"{nearest} is not a folder")
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise OSError(error.errno, f"{nearest} does not allow new files ({error.strerror})") from error


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


def check_ledger(definition: Definition) -> Iterator[Check]:
    """Checks the ledger, the tables of its newest cut, and the folders of renamed and dropped tables."""
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
    state = latest.state
    cut = cut_text(state.barrier, state.mark, binlog=has_binlog(definition))
    barrier_text = "" if state.barrier is None else f", up to {cut}"
    steps = f"step {latest.step:,} done{barrier_text}" if latest.step else "no step done"
    yield Check("ledger", OK, f"epoch {latest.epoch}, {steps}")
    if latest.step:
        yield from _lag(definition)
    compared = _cut(definition, latest)
    if compared is not None:
        yield compared
    with suppress(MissingExtraError, NeedsSparkError):  # the check of the sink has it
        yield from _old_folders(definition, latest)


def _lag(definition: Definition) -> Iterator[Check]:
    """The lag of the tables and what holds the cut, in the words of `changefeed status`."""
    now = datetime.now(UTC)
    with suppress(ChangefeedError):  # the checks of the source and of the ledger have it
        report = status(definition, 1)
        words = [lag_text(report.lag, now) or "nothing is known to be left"]
        if report.held_by:
            words.append(held_text(report.held_by, clock_text(report.held_since) if report.held_since else None))
        if any(holder.way_out for holder in report.held_by):  # waiting is of no use
            yield Check("lag", WARN, ", ".join(words), "the message has the way out")
        else:
            yield Check("lag", OK, ", ".join(words))


def _old_folders(definition: Definition, latest: Latest) -> Iterator[Check]:
    if folders := old_folders(definition, latest, read_deleted_folders(definition)):
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
            except (SinkError, ConfigError) as error:
                return Check("cut", FAIL, str(error), "the message has the ways out")
            looked += 1
    return Check("cut", OK, f"{looked:,} {'table' if looked == 1 else 'tables'} as in the ledger") if looked else None


def _unreachable(path: str, error: SinkError) -> Check:
    if error.transient and urlsplit(path).scheme in _IN_SPARK:  # with settings of Hadoop's that only Spark may have
        return Check("ledger", WARN, f"not checked: {error}", _BY_SPARK)
    away = "see that it can be reached, with the credentials that this user has"
    damaged = "restore it from a copy, or start again with an empty sink.path"
    return Check("ledger", FAIL, str(error), away if error.transient else damaged)
