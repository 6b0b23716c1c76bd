"""Python workers on other machines: what each must have, and one sentence that names what it lacks.

    driver                                            worker
    expected() ── spark.executorEnv.CHANGEFEED_EXPECTED ──▶ daemon.py: lacking(expected), when an executor's first task comes
    check()    ── a small job, when a run begins ─────────▶ lacking(expected), whatever daemon the workers come from

Rule 1. A worker decodes as the driver would, or not at all: the same Python, the same sources, the same kernel.
Rule 2. The function that looks travels as a whole (`shipped`): a worker without changefeed can run it too.
Rule 3. Spark's own errors about such a worker are translated to one sentence, too (`translated_error`).
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import changefeed
from changefeed.errors import ConfigError
from changefeed.spark_runtime.properties import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIABLE = "CHANGEFEED_EXPECTED"
_FIX = "Ship this installation: `changefeed package` makes the archive that spark.archives names"
_PACKAGES = ("pyarrow", "pandas", "msgspec", "pydantic")
_MOST_TASKS = 64

Expected = dict[str, Any]


def expected() -> Expected:
    """The versions that every worker must have: those of this process."""
    kernel = metadata.version("changefeed-kernel") if find_spec("changefeed_kernel") else None
    return {
        "python": list(sys.version_info[:2]),
        "version": changefeed.__version__,
        "sources": sources(Path(changefeed.__file__).parent),
        "kernel": kernel,
        "packages": list(_PACKAGES),
        "fix": _FIX,
    }


def in_environment(expected: Expected) -> str:
    """The value of `VARIABLE`: letters, digits, `-`, `_` and `=`, as YARN writes it into a shell script."""
    return base64.urlsafe_b64encode(json.dumps(expected).encode()).decode()


def sources(folder: Path) -> str:
    """A hash of the package's modules; the same on every machine that has the same."""
    return str(shipped()({}, str(folder)))


def shipped() -> Callable[..., str]:
    """The function that looks at a worker. It is made again, without a module: so its code is what travels, not its name."""

    def lacking(expected: dict[str, Any], folder: str = "", shared: str = "") -> str:
        """The differences of this process, as a sentence, or None; with a folder, the hash of the modules in it."""
        import hashlib
        import importlib.metadata
        import importlib.util
        import os
        import socket
        import sys

        def summed(top: str) -> str:
            digest = hashlib.sha256()
            for below, folders, names in os.walk(top):
                folders.sort()
                for name in sorted(names):
                    if name.endswith(".py"):
                        with open(os.path.join(below, name), "rb") as file:
                            text = file.read()
                        digest.update(f"{os.path.relpath(below, top)}/{name} {len(text)} ".encode() + text)
            return digest.hexdigest()[:16]

        def missing() -> str:
            version, wanted = list(sys.version_info[:2]), list(expected["python"])
            if version != wanted:
                return f"has Python {version[0]}.{version[1]}, the driver {wanted[0]}.{wanted[1]}"
            spec = importlib.util.find_spec("changefeed")
            if spec is None or spec.origin is None:
                return "has no package changefeed"
            import changefeed

            if changefeed.__version__ != expected["version"]:
                return f"has changefeed {changefeed.__version__}, the driver {expected['version']}"
            top = os.path.dirname(spec.origin)
            if os.path.isdir(top) and summed(top) != expected["sources"]:
                return f"has another build of changefeed {changefeed.__version__} than the driver"
            for name in expected["packages"]:
                if importlib.util.find_spec(name) is None:
                    return f"has no package {name}"
            if expected["kernel"] is not None:
                try:
                    import changefeed_kernel  # noqa: F401

                    kernel = importlib.metadata.version("changefeed-kernel")
                except ImportError as error:
                    return f"has no Rust kernel, the driver has one ({error})"
                if kernel != expected["kernel"]:
                    return f"has the Rust kernel {kernel}, the driver {expected['kernel']}"
            return ""

        if folder:
            return summed(folder)
        difference = missing()
        if difference:
            return f"the worker on {socket.gethostname()} {difference}. {expected['fix']} ({sys.executable})"
        if shared and not os.path.exists(shared):
            return (
                f"the worker on {socket.gethostname()} does not see the folder of sink.path as the driver does: name one on a "
                "file system that all machines share"
            )
        return ""

    lacking.__module__ = "__main__"
    return lacking


def refuse() -> None:
    """Ends this process with a sentence on stderr if it is a worker that lacks something; Spark carries it to the driver."""
    text = os.environ.get(VARIABLE)
    if text is not None and (difference := shipped()(json.loads(base64.urlsafe_b64decode(text)))):
        print(f"changefeed.errors.ConfigError: {difference}", file=sys.stderr, flush=True)
        os._exit(1)


def check(spark: SparkSession, folder: str) -> None:
    """Looks at the workers, where there are any but this process.

    Args:
        spark: the session.
        folder: where the tables are; every machine must see the same there.

    Raises:
        ConfigError: a worker lacks something, or the folder means two places.
    """
    scheme, default = urlsplit(folder).scheme, _default(spark)
    if not scheme and urlsplit(default).scheme != "file":
        raise ConfigError(
            f"sink.path {folder} is a folder of this machine for changefeed, and one of {default} for Spark "
            "(fs.defaultFS): write "
            f"it as file://{folder} or {default.rstrip('/')}{folder}"
        )
    context = spark.sparkContext
    if is_local(str(context.master)):
        return
    tasks = min(_MOST_TASKS, max(2, context.defaultParallelism))
    look, wanted = shipped(), expected()
    with _mark(urlsplit(folder).path if scheme in ("", "file") else "") as mark:
        work = _work(look, wanted, mark)
        differences = [one for one in context.parallelize(range(tasks), tasks).mapPartitions(work).collect() if one]
    if differences:
        raise ConfigError(differences[0])


def _default(spark: SparkSession) -> str:
    """Spark's file system for paths without one, as a URL."""
    jvm: Any = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    return str(jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(conf).toString())


def _work(look: Callable[..., str], wanted: Expected, mark: str) -> Callable[[Any], Iterator[str]]:
    def work(_: Any) -> Iterator[str]:
        yield look(wanted, "", mark)

    work.__module__ = "__main__"
    return work


@contextmanager
def _mark(folder: str) -> Iterator[str]:
    """A file in a local folder, as long as workers look for it; nothing for a folder that is not local."""
    if not folder:
        yield ""
        return
    top = Path(folder)
    top.mkdir(parents=True, exist_ok=True)
    mark = top / f".changefeed-{uuid.uuid4().hex}"
    mark.touch()
    try:
        yield str(mark)
    finally:
        mark.unlink(missing_ok=True)


_WHERE = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor")
_SAID = (
    (re.compile(r"No module named '?changefeed(\.\S+)?'?\)?$", re.MULTILINE), "has no package changefeed"),
    (re.compile(r"No module named '?changefeed_kernel'?\)?$", re.MULTILINE), "has no Rust kernel, the driver has one"),
    (re.compile(r"No module named '?(pyspark|py4j|numpy|pyarrow|pandas|msgspec|pydantic)\b"), "has no package {}"),
    (re.compile(r"PACKAGE_NOT_INSTALLED\] (\w+) >= (\S+) must be installed"), "has no package {}"),
    (re.compile(r"PYTHON_VERSION_MISMATCH\] Python in worker has different version: ([\d.]+)"), "has Python {}"),
    (re.compile(r'Cannot run program "([^"]*python[^"]*)"'), "has no Python at {}"),
)


def translated_error(text: str) -> str | None:
    """The sentence for Spark's error about a Python worker that cannot work; None if the text is about something else."""
    for pattern, words in _SAID:
        if match := pattern.search(text):
            where = _WHERE.search(text)
            worker = f"the worker on {where[1]}" if where else "a worker"
            name = (match[1] or "") if match.groups() else ""
            return f"{worker} {words.format(name.lower() if 'package' in words else name)}. {_FIX}"
    return None
