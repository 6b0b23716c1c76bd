"""Passes Spark's properties to its JVM in a file that only this user can read.

pyspark passes properties as `--conf name=value`, but every user of the machine can read a command line in
`/proc/PID/cmdline`, and properties may contain passwords. So they are written to files, which are deleted when the JVM has
started:

    /tmp/changefeed-start-…/            mode 0700
        spark.conf                      mode 0600; spark-submit --properties-file
        java-options                    mode 0600; java @java-options: the `-D` options of the definition
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from changefeed.errors import ConfigError

_SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_ESCAPED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


@contextmanager
def passed_in_a_file(properties: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Within this context, a JVM that pyspark starts reads these properties from a file; the file is deleted afterwards.

    Raises:
        ConfigError: PYSPARK_SUBMIT_ARGS names another properties file: Spark reads only one.
    """
    before = os.environ.get(_SUBMIT_ARGS)
    if before is not None and any(word.split("=")[0] == "--properties-file" for word in shlex.split(before)):
        raise ConfigError(
            f"{_SUBMIT_ARGS} names a --properties-file: put its properties under `spark:` in the definition"
        )
    folder = Path(tempfile.mkdtemp(prefix="changefeed-start-"))
    try:
        file = _write(folder / "spark.conf", _text(properties, folder / "java-options"))
        ours = shlex.join(["--properties-file", str(file), "--load-spark-defaults"])
        os.environ[_SUBMIT_ARGS] = f"{ours} {before or 'pyspark-shell'}"
        yield
    finally:
        if before is None:
            os.environ.pop(_SUBMIT_ARGS, None)
        else:
            os.environ[_SUBMIT_ARGS] = before
        shutil.rmtree(folder, ignore_errors=True)


def _text(properties: Iterable[tuple[str, str]], java_options: Path) -> str:
    """Formats the properties as a Java properties file; `-D` options are moved to the file `java_options`."""
    lines, moved = [], list[str]()
    for name, value in properties:
        if name in _JAVA_OPTIONS:
            words = shlex.split(value)
            defined = [word for word in words if word.startswith("-D")]
            if defined:
                value = " ".join(shlex.quote(word) for word in words if word not in defined)
                moved += defined
        lines.append((name, value))
    if moved:
        _write(java_options, "".join(f"{_quoted(word)}\n" for word in moved))
        values = dict(lines)
        first = next(name for name in _JAVA_OPTIONS if name in values)
        values[first] = f"{values[first]} {shlex.quote(f'@{java_options}')}".strip()
        lines = list(values.items())
    return "".join(f"{_escaped(name, ' :=#!')}={_escaped(value)}\n" for name, value in lines)


def _escaped(text: str, also: str = "") -> str:
    """Escapes a name or a value for a file of java.util.Properties."""
    escaped = "".join(f"\\{c}" if c in also else _ESCAPED.get(c, c) for c in text)
    return f"\\{escaped}" if escaped[:1] == " " else escaped


def _quoted(word: str) -> str:
    """Quotes an argument for an argument file of the java command."""
    return '"' + "".join(f"\\{c}" if c == '"' else _ESCAPED.get(c, c) for c in word) + '"'


def _write(path: Path, text: str) -> Path:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    return path
