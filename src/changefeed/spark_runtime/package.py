"""The folder that `changefeed package` writes: the archive, the jars, and the properties for spark-submit.

changefeed-0.1.0-cp311-linux-x86_64.tar.gz
jars/delta-spark_4.1_2.13-4.4.0.jar …     with Spark 4.1; none with another
spark.conf                 properties, for --properties-file
changefeed_submit.py       the program: `changefeed`
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from changefeed.errors import ConfigError
from changefeed.spark_runtime import archive, jars
from changefeed.spark_runtime.cluster import ENVIRONMENT, PYTHON

_PROGRAM = '''"""changefeed, for spark-submit: `spark-submit … changefeed_submit.py run pipeline.yaml`."""

from changefeed.cli import main

if __name__ == "__main__":
    main()
'''


@dataclass(frozen=True, slots=True)
class Made:
    """The files of the folder, and the packages in the archive."""

    archive: Path
    jars: list[Path]
    properties: Path
    program: Path
    packages: list[str]


def write(folder: Path, at: str | None = None) -> Made:
    """Writes all files into `folder`, replacing existing ones.

    Args:
        folder: the folder; it is created if it does not exist.
        at: the URL of these files for the cluster; None for the folder itself.

    Raises:
        ConfigError: the folder cannot be written, or a jar could not be downloaded.
    """
    files = jars.paths(*jars.session_sets(version("pyspark")))
    try:
        (folder / "jars").mkdir(parents=True, exist_ok=True)
        copies = [Path(shutil.copy2(file, folder / "jars" / file.name)) for file in files]
        target, properties, program = (
            folder / archive.file_name(),
            folder / "spark.conf",
            folder / "changefeed_submit.py",
        )
        packages = archive.write(target)
        base = prefix(folder, at)
        values = {
            "spark.archives": f"{base}/{target.name}#{ENVIRONMENT}",
            "spark.pyspark.python": PYTHON,
        }
        if copies:
            values["spark.jars"] = ",".join(f"{base}/jars/{jar.name}" for jar in copies)
        properties.write_text("".join(f"{name} {value}\n" for name, value in values.items()), encoding="utf-8")
        program.write_text(_PROGRAM, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: {error.strerror}") from error
    return Made(target, copies, properties, program, packages)


def prefix(folder: Path, at: str | None) -> str:
    """Returns the prefix of the files' paths on the cluster."""
    return at.rstrip("/") if at else str(folder.absolute())
