"""Python workers on other machines: checks that each has the same installation as the driver, and names what is missing.

    driver                                            worker
    expected() ── spark.executorEnv.CHANGEFEED_EXPECTED ──▶ daemon.py: lacking(expected), when an executor's first task comes
    check()    ── a small job, when a run begins ─────────▶ lacking(expected), with any daemon

Rule 1. A worker has the same Python, the same sources and the same kernel as the driver, or does not run.
Rule 2. The checking function is pickled by value (`shipped`), so a worker without changefeed can run it too.
Rule 3. Spark's own errors about such a worker are translated to the same messages (`worker_problem`).
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
PACKAGES = ("pyarrow", "pandas", "msgspec", "pydantic")
_OPTIONAL = (
    "confluent_kafka",
    "deltalake",
    "lz4",
    "obstore",
    "pyroaring",
    "snappy",
)  # required where the driver has them
_MOST_TASKS = 64

Expected = dict[str, Any]


def expected() -> Expected:
    """Returns the installation of this process, required of every worker."""
    kernel = metadata.version("changefeed-kernel") if find_spec("changefeed_kernel") else None
    return {
        "python": list(sys.version_info[:2]),
        "version": changefeed.__version__,
        "sources": sources(Path(changefeed.__file__).parent),
        "kernel": kernel,
        "packages": [*PACKAGES, *filter(find_spec, _OPTIONAL)],
        "fix": _FIX,
    }


def in_environment(expected: Expected) -> str:
    """Returns the value of `VARIABLE`: only letters, digits, `-`, `_` and `=`, because YARN writes it into a shell script."""
    return base64.urlsafe_b64encode(json.dumps(expected).encode()).decode()


def sources(folder: Path) -> str:
    """Returns a hash of the package's modules, equal on all machines with the same sources."""
    return str(shipped()({}, str(folder)))


def shipped() -> Callable[..., str]:
    """Returns the function that checks a worker. It belongs to no importable module, so it is pickled by value."""

    def lacking(expected: dict[str, Any], folder: str = "", shared: str = "", option: str = "") -> str:
        """Returns a sentence about what this process lacks, or ""; with a folder, the hash of the modules in it."""
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
            own, wanted = list(sys.version_info[:2]), list(expected["python"])
            if own != wanted:
                return f"has Python {own[0]}.{own[1]}, the driver {wanted[0]}.{wanted[1]}"
            package = importlib.util.find_spec("changefeed")
            if package is None or package.origin is None:
                return "has no package changefeed"
            import changefeed

            if changefeed.__version__ != expected["version"]:
                return f"has changefeed {changefeed.__version__}, the driver {expected['version']}"
            top = os.path.dirname(package.origin)
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
        problem = missing()
        if problem:
            return f"the worker on {socket.gethostname()} {problem}. {expected['fix']} ({sys.executable})"
        if shared and not os.path.exists(shared):
            return (
                f"the worker on {socket.gethostname()} does not see the folder of {option} as the driver does: name one on a "
                "file system that all machines share"
            )
        return ""

    lacking.__module__ = "__main__"
    return lacking


def refuse() -> None:
    """Ends this process with a message on stderr if it is a worker that lacks something; Spark sends it to the driver."""
    text = os.environ.get(VARIABLE)
    if text is not None and (problem := shipped()(json.loads(base64.urlsafe_b64decode(text)))):
        print(f"changefeed.errors.ConfigError: {problem}", file=sys.stderr, flush=True)
        os._exit(1)


def check(spark: SparkSession, folder: str, option: str = "sink.path") -> None:
    """Checks the workers, if there are any in other processes.

    Args:
        spark: the session.
        folder: a folder that all machines must share: that of the tables, or the pipeline's own.
        option: the option of the definition that has it.

    Raises:
        ConfigError: a worker lacks something, or the folder is ambiguous.
    """
    scheme, default = urlsplit(folder).scheme, _default(spark)
    if not scheme and urlsplit(default).scheme != "file":
        raise ConfigError(
            f"{option} {folder} is a folder of this machine for changefeed, and one of {default} for Spark (fs.defaultFS): "
            f"write it as file://{folder} or {default.rstrip('/')}{folder}"
        )
    context = spark.sparkContext
    if is_local(str(context.master)):
        return
    tasks = min(_MOST_TASKS, max(2, context.defaultParallelism))
    look, wanted = shipped(), expected()
    with _mark(urlsplit(folder).path if scheme in ("", "file") else "") as mark:
        work = _work(look, wanted, mark, option)
        problems = [one for one in context.parallelize(range(tasks), tasks).mapPartitions(work).collect() if one]
    if problems:
        raise ConfigError(problems[0])


def _default(spark: SparkSession) -> str:
    """Returns the URL of Spark's default file system."""
    jvm: Any = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    return str(jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(conf).toString())


def _work(look: Callable[..., str], wanted: Expected, mark: str, option: str) -> Callable[[Any], Iterator[str]]:
    def work(_: Any) -> Iterator[str]:
        yield look(wanted, "", mark, option)

    work.__module__ = "__main__"
    return work


@contextmanager
def _mark(folder: str) -> Iterator[str]:
    """Creates a temporary file in a local folder for the workers to look for; yields "" for a folder that is not local."""
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
_MESSAGES = (
    (re.compile(r"No module named '?changefeed(\.\S+)?'?\)?$", re.MULTILINE), "has no package changefeed"),
    (re.compile(r"No module named '?changefeed_kernel'?\)?$", re.MULTILINE), "has no Rust kernel, the driver has one"),
    (re.compile(r"No module named '?(pyspark|py4j|numpy|pyarrow|pandas|msgspec|pydantic)\b"), "has no package {}"),
    (re.compile(r"PACKAGE_NOT_INSTALLED\] (\w+) >= (\S+) must be installed"), "has no package {}"),
    (re.compile(r"PYTHON_VERSION_MISMATCH\] Python in worker has different version: ([\d.]+)"), "has Python {}"),
    (re.compile(r'Cannot run program "([^"]*python[^"]*)"'), "has no Python at {}"),
)


def worker_problem(text: str) -> str | None:
    """Translates Spark's error about a Python worker that cannot run; None for any other error."""
    for pattern, words in _MESSAGES:
        if match := pattern.search(text):
            where = _WHERE.search(text)
            worker = f"the worker on {where[1]}" if where else "a worker"
            name = (match[1] or "") if match.groups() else ""
            return f"{worker} {words.format(name.lower() if 'package' in words else name)}. {_FIX}"
    return None
