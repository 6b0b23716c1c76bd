"""Compiles a Java file of the tests. Eclipse's compiler needs no JDK."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from changefeed.spark_runtime import ivy, java
from tests.services.processes import tail

_COMPILER = """\
<ivy-module version="2.0">
  <info organisation="changefeed" module="ecj"/>
  <configurations><conf name="default"/></configurations>
  <dependencies><dependency org="org.eclipse.jdt" name="ecj" rev="3.33.0" conf="default->default"/></dependencies>
</ivy-module>
"""


def compiled(source: Path, jars: Sequence[Path]) -> Path:
    """Compiles a file, unless that has been done; returns the folder with the classes.

    Args:
        source: the file.
        jars: what it is compiled against.

    Raises:
        RuntimeError: the file does not compile.
    """
    names = ":".join(sorted(jar.name for jar in jars))
    key = hashlib.sha256(source.read_bytes() + names.encode()).hexdigest()[:12]
    target = ivy.cache_folder() / "classes" / f"{source.stem.lower()}-{key}"
    if target.is_dir():
        return target
    compiler = ivy.retrieve(_COMPILER, ivy.cache_folder() / "jars" / "ecj-3.33.0")
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".compiling-", dir=target.parent))
    command = [
        str(java.find().executable), "-jar", str(next(compiler.glob("ecj-*.jar"))), "-17", "-nowarn",
        "-cp", ":".join(map(str, jars)), "-d", str(work), str(source),
    ]  # fmt: skip
    try:
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        if ran.returncode != 0:
            raise RuntimeError(f"{source.name} does not compile:\n{tail(ran.stdout, 40)}")
        if not target.is_dir():
            work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target
