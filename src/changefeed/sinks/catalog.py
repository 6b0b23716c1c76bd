"""The contract of a catalog: the names under which people query the tables of a sink.

Rule 1. A catalog is a view of the ledger. What it has is derived from the ledger's tables, and nothing is ever read from it but
        what it has under these names.
Rule 2. An entry is the pipeline's if it carries the pipeline's mark and has the location of a path that the pipeline has
        written. No other entry is changed or removed.
Rule 3. An entry with the location of the table is right, also if another program has made it. Any other is `taken`: the table has
        no entry, and the catalog's other entries are kept up to date.
Rule 4. A catalog folds names to lower case. If two tables have one name, neither has an entry: nothing shows which one is meant.

The module of a sink may have the function `open_catalog(section, session, pipeline)`: see `sinks.catalog_of`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from changefeed.model.names import names_of

_NAME = re.compile(r"[a-z0-9_]{1,128}")


@dataclass(frozen=True, slots=True)
class CatalogTrial:
    """The result of trying a catalog through which a sink commits, for `changefeed check`; see `sinks.catalog_trial`.

    Attributes:
        answer: what works.
        doubts: what a run may stumble over, each with the way out.
    """

    answer: str
    doubts: tuple[str, ...] = ()


class EntryName(NamedTuple):
    """Name of an entry, as the catalog stores it: in lower case."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class Named:
    """The names of a pipeline's tables in a catalog.

    Attributes:
        entries: `database.table` of the upstream -> name of its entry.
        refused: `database.table` -> why it has no entry, and the way out.
    """

    entries: dict[str, EntryName]
    refused: dict[str, str]


def named(tables: Iterable[str], pattern: str, excludes: Callable[[str], bool] = lambda table: False) -> Named:
    """Returns the entries of tables.

    Args:
        tables: the tables, by `database.table`.
        pattern: the option `catalog-names`.
        excludes: whether the definition excludes a table. Such a table leaves a name that another one has, too, to it.
    """
    claims, refused = defaultdict[EntryName, list[str]](list), dict[str, str]()
    for table in sorted(tables):
        entry = entry_name(table, pattern)
        claims[entry].append(table)
    entries = dict[str, EntryName]()
    for entry, claimants in claims.items():
        if parts := [part for part in entry if not _NAME.fullmatch(part)]:
            reason = f"a catalog has no name {parts[0]!r}: only letters of ASCII, digits and `_`, 128 at most"
            refused |= dict.fromkeys(claimants, f"{reason}. Query {' and '.join(claimants)} by path")
            continue
        rivals = claimants if len(claimants) < 2 else [table for table in claimants if not excludes(table)]
        if len(rivals) == 1:
            entries[rivals[0]] = entry
        else:
            reason = (
                f"{' and '.join(rivals or claimants)} would both be {entry}, since a catalog has names in lower case"
            )
            refused |= dict.fromkeys(rivals, f"{reason}. Exclude one of them, or query them by path")
    return Named(entries, refused)


def entry_name(table: str, pattern: str) -> EntryName:
    """Returns the name that a table, by `database.table`, has by the option `catalog-names`."""
    parts = dict(zip(("{database}", "{table}"), names_of(table), strict=True))
    database, _, name = pattern.partition(".")
    return EntryName(_filled(database, parts), _filled(name, parts))


def _filled(pattern: str, parts: Mapping[str, str]) -> str:
    name = re.sub(r"\{database\}|\{table\}", lambda match: parts[match[0]], pattern)
    return name.lower() if name.isascii() else name  # other letters may fold to those of ASCII


def check_pattern(pattern: str) -> str:
    """Returns a value of the option `catalog-names` if it is one.

    Raises:
        ValueError: it is not `<database>.<table>`, or has no `{table}`.
    """
    plain = re.sub(r"\{database\}|\{table\}", "x", pattern)
    if not re.fullmatch(r"[A-Za-z0-9_]+\.[A-Za-z0-9_]+", plain) or "{table}" not in pattern:
        raise ValueError(
            "expected `<database>.<table>` of letters, digits, `_`, `{database}` and `{table}`, as `lake.{database}_{table}`, "
            f"with `{{table}}` in it, not {pattern!r}"
        )
    return pattern


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences between a catalog and the ledger.

    Attributes:
        missing: entries to make -> their locations.
        moved: entries of the pipeline whose name another of its tables has now -> the location of that table.
        stale: entries to remove: of tables that were renamed or dropped.
        taken: entries of others -> what they are, and the way out.
    """

    missing: dict[EntryName, str]
    moved: dict[EntryName, str]
    stale: tuple[EntryName, ...]
    taken: dict[EntryName, str]


class Catalog(Protocol):
    """The entries of one pipeline in one catalog.

    Raises, in all methods that ask the catalog:
        AccessError: the catalog refuses this user.
        SinkError: the catalog does not answer (`transient`), or fails.
    """

    @property
    def name(self) -> str:
        """The catalog's name."""
        ...

    @property
    def pattern(self) -> str:
        """The option `catalog-names`."""
        ...

    @property
    def lasts(self) -> bool:
        """Whether the entries outlive Spark's process."""
        ...

    def compare(self, wanted: Mapping[EntryName, str], former: Mapping[EntryName, Collection[str]]) -> Comparison:
        """Compares the catalog with the ledger; changes nothing.

        Args:
            wanted: entries that the catalog should have -> locations of their tables.
            former: entries that it may still have, of tables that were renamed or dropped -> locations of these tables. Other
                tables may have the names by now.
        """
        ...

    def apply(self, comparison: Comparison) -> None:
        """Makes, moves and removes entries; makes their databases, if they are missing. Nothing is written to the tables."""
        ...

    def try_out(self, wanted: Mapping[EntryName, str]) -> None:
        """Checks that the catalog answers, and that this user may make what is wanted: under names that nobody has.

        Makes an entry in each database that is there, and a database if one is missing, and removes them again.

        Args:
            wanted: entries that the catalog should have -> locations of their tables.
        """
        ...
