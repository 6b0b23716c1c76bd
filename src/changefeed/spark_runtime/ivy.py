"""Downloads jars with the Ivy that is part of pyspark; only Java is needed.

Spark's own `spark.jars.packages` is not used: for the Kafka connector it requires artifacts that do not exist in that
version, and it fails on a local Maven repository that has a pom without its jar.

A folder of jars is either complete or absent. Ivy works in a temporary folder next to the target, which is renamed when it
is complete; if two processes download at once, the later rename fails, and that process uses the other's result.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from changefeed.errors import ConfigError, MissingExtraError
from changefeed.spark_runtime import java

_TIMEOUT_S = 900


def cache_folder(environ: Mapping[str, str] | None = None, system: str | None = None) -> Path:
    """The folder for downloads: `CHANGEFEED_HOME`, or `changefeed` in the user's cache folder."""
    environ = os.environ if environ is None else environ
    if home := environ.get("CHANGEFEED_HOME"):
        return Path(home).expanduser()
    if (platform.system() if system is None else system) == "Darwin":
        return Path("~/Library/Caches/changefeed").expanduser()
    return Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "changefeed"


def retrieve(descriptor: str, target: Path, check: Callable[[Path], None] | None = None) -> Path:
    """Downloads every jar of an Ivy descriptor into the folder `target`, unless it exists; returns the folder.

    Args:
        descriptor: an `ivy.xml`, with the one configuration `default`.
        target: the folder; it appears only when it is complete.
        check: called with the complete folder before it gets its name; raises if a jar is wrong.

    Raises:
        ConfigError: a jar could not be downloaded; the message names it.
        MissingExtraError: pyspark is not installed.
    """
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".resolving-", dir=target.parent))
    try:
        (work / "ivy.xml").write_text(descriptor, encoding="utf-8")
        _run_ivy(work)
        jars = work / "jars"
        if check is not None:
            check(jars)
        try:
            jars.rename(target)
        except OSError:
            if not target.is_dir():
                raise
        return target
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_ivy(work: Path) -> None:
    # -Duser.home keeps it from reading and writing ~/.ivy2 and ~/.m2.
    command = [
        str(java.find().executable), f"-Duser.home={work}", "-jar", str(_ivy_jar()),
        "-ivy", str(work / "ivy.xml"), "-cache", str(work / "cache"), "-confs", "default",
        "-types", "jar", "bundle", "-m2compatible", "-warn",
        "-retrieve", f"{work}/jars/[artifact]-[revision].[ext]",
    ]  # fmt: skip
    try:
        ran = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"jars: the repository gave no answer within {_TIMEOUT_S} s") from error
    if ran.returncode != 0:
        raise ConfigError(_explain(ran.stdout))


def _explain(log: str) -> str:
    """Returns a message from Ivy's log: the missing jars, or its last lines."""
    missing = sorted({f"{org}:{name}:{rev}" for org, name, rev in re.findall(r":: (\S+?)#([^;\s]+);(\S+): \S", log)})
    missing += sorted(set(re.findall(r"\[NOT FOUND\s*\] (\S+)", log)))
    missing += sorted(set(re.findall(r"\[FAILED\s*\] (\S+)", log)))
    if missing:
        return (
            f"jars that could not be fetched: {', '.join(missing)}. "
            "They come from Maven Central once and are kept afterwards: is the network there?"
        )
    return "jars: Ivy failed: " + " / ".join(line.strip() for line in log.strip().splitlines()[-5:])


def _ivy_jar() -> Path:
    try:
        import pyspark
    except ImportError as error:
        raise MissingExtraError("Spark", "spark") from error
    return next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
