"""The additional jars of Spark, locked: coordinates, versions and contents.

`paths("delta", "kafka")` returns files. The first call on a machine downloads them, later ones only check that they exist,
so a machine that has run once works without a network. The name of a set's folder contains a hash of its locked jars:
another version has another folder, and an interrupted download leaves none.

The jars are those for Spark 4.1. With another Spark a session has none of them (`session_sets`), and what needs one is refused.

`python -m changefeed.spark_runtime.jars` fetches all sets ahead of time.
"""

from __future__ import annotations

import hashlib
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from changefeed.errors import ConfigError, unknown_name
from changefeed.spark_runtime import ivy


class Jar(NamedTuple):
    """One locked artifact of Maven Central."""

    organisation: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        """The jar's file name."""
        return f"{self.name}-{self.version}.jar"


# Without transitive dependencies: Spark contains the rest, and jars that are not listed are not loaded. The token provider of
# Spark 4.0.0 is the newest that resolves; it contains every class that the 4.1 connector refers to.
SETS: dict[str, tuple[Jar, ...]] = {
    "delta": (
        Jar("io.delta", "delta-spark_4.1_2.13", "4.4.0", "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10"),
        Jar("io.delta", "delta-storage", "4.4.0", "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc"),
        Jar("io.delta", "delta-kernel-api", "4.4.0", "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11"),
        Jar("io.delta", "delta-kernel-defaults", "4.4.0", "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b"),
        Jar("io.delta", "delta-kernel-unitycatalog", "4.4.0", "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa"),
        Jar("io.unitycatalog", "unitycatalog-client", "0.6.0", "48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19"),
        Jar("io.unitycatalog", "unitycatalog-hadoop", "0.6.0", "c47b63c961c87102b9e1d63809a0915ba4c86b7652f57c8d39ca3a05b441a150"),
    ),
    "kafka": (
        Jar("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.1.3", "cb31ffd9c8f5527dba061db8af671d295562092e4f3f5ff42fc249fab8a8fde6"),
        Jar("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0", "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767"),
        Jar("org.apache.kafka", "kafka-clients", "3.9.1", "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9"),
        Jar("org.apache.commons", "commons-pool2", "2.12.1", "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef"),
    ),
    # For benchmarks: Spark's own Avro decoder.
    "avro": (
        Jar("org.apache.spark", "spark-avro_2.13", "4.1.1", "6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d"),
    ),
}  # fmt: skip

SPARK = "4.1"
"""The Spark whose jars these are."""


def session_sets(version: str) -> tuple[str, ...]:
    """Returns the sets that a session of this version of Spark has."""
    return ("delta", "kafka") if version.startswith(f"{SPARK}.") else ()


def paths(*names: str, cache: Path | None = None) -> list[Path]:
    """Returns the jar files of the named sets; downloads them if needed.

    Args:
        names: keys of `SETS`.
        cache: the folder to keep them in, instead of the user's.

    Raises:
        ConfigError: a set is unknown, or a jar could not be downloaded or differs from the locked one.
    """
    files: list[Path] = []
    for name in names:
        if name not in SETS:
            raise unknown_name("jar set", name, SETS)
        jars = SETS[name]
        folder = _folder(name, jars, cache or ivy.cache_folder())
        ivy.retrieve(_descriptor(jars), folder, partial(verify, jars))
        files += [_present(folder / jar.file) for jar in jars]
    return files


def verify(jars: tuple[Jar, ...], folder: Path) -> None:
    """Checks that a folder has every jar with the locked content.

    Raises:
        ConfigError: a jar is missing or differs; the message names it.
    """
    for jar in jars:
        path = _present(folder / jar.file)
        with path.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
        if actual != jar.sha256:
            raise ConfigError(f"{jar.file} is not the file that was locked: sha256 {actual}, expected {jar.sha256}")


def _folder(name: str, jars: tuple[Jar, ...], cache: Path) -> Path:
    return cache / "jars" / f"{name}-{hashlib.sha256(repr(sorted(jars)).encode()).hexdigest()[:12]}"


def _present(path: Path) -> Path:
    if not path.is_file():
        raise ConfigError(f"{path.name} is missing from {path.parent}: delete that folder, and it is fetched again")
    return path


def _descriptor(jars: tuple[Jar, ...]) -> str:
    lines = "\n".join(
        f'    <dependency org="{jar.organisation}" name="{jar.name}" rev="{jar.version}" transitive="false"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0">\n  <info organisation="changefeed" module="jars"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f'  <dependencies defaultconf="default->master">\n{lines}\n  </dependencies>\n</ivy-module>\n'
    )


def main() -> int:
    """Downloads every set and prints the folders."""
    try:
        for folder in sorted({path.parent for path in paths(*SETS)}):
            print(folder)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
