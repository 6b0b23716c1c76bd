"""The cases: SQL for a database, and the options of the connector that reads it.

The SQL is in `sql/`: `<name>_setup.sql` and `<name>_pre.sql` run before the connector starts, `<name>_workload.sql` while it
streams.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SQL = Path(__file__).with_name("sql")


@dataclass(frozen=True)
class Case:
    """One comparison: statements, and the connector's options.

    Attributes:
        sql: the SQL's name.
        options: of the connector; those that the encoder has are set for it, too.
        servers: the servers that have the SQL's types.
        pre: whether the database has rows when the snapshot is taken.
        streams: whether the workload is run.
        source: options of the event pipeline's source that mean the same.
    """

    name: str
    sql: str
    options: dict[str, str] = field(default_factory=dict)
    servers: tuple[str, ...] = ("mariadb", "mysql")
    pre: bool = True
    streams: bool = True
    source: dict[str, Any] = field(default_factory=dict)

    def text(self, part: str) -> str:
        """The SQL of a part; empty if it has none."""
        path = SQL / f"{self.sql}_{part}.sql"
        return path.read_text(encoding="utf-8") if path.exists() else ""


_NO_DATA = {"snapshot.mode": "no_data"}
_MARIADB = ("mariadb",)


def _streamed(name: str, **options: str) -> Case:
    """A case of all types, with one option of the connector."""
    chosen = {option.replace("_", "."): value for option, value in options.items()}
    return Case(f"types, {name}", "types", _NO_DATA | chosen, _MARIADB, pre=False)


def _option(name: str, option: str, value: str) -> Case:
    return Case(name, "options", {option: value})


CASES = (
    Case("rows", "crud", {"include.query": "true"}),
    Case("types, streamed", "types", _NO_DATA, _MARIADB, pre=False),
    Case("types, snapshot", "types", {}, _MARIADB, streams=False),
    _streamed("unsigned precise", bigint_unsigned_handling_mode="precise"),
    _streamed("binary base64", binary_handling_mode="base64"),
    _streamed("binary base64-url-safe", binary_handling_mode="base64-url-safe"),
    _streamed("binary hex", binary_handling_mode="hex"),
    _streamed("decimal double", decimal_handling_mode="double"),
    _streamed("decimal string", decimal_handling_mode="string"),
    _streamed("decimal numeric", converter_decimal_format="NUMERIC"),
    _streamed("time connect", time_precision_mode="connect"),
    _streamed("time microseconds", time_precision_mode="microseconds"),
    _streamed("time nanoseconds", time_precision_mode="nanoseconds"),
    _streamed("time isostring", time_precision_mode="isostring"),
    Case("defaults", "defaults", _NO_DATA),
    Case("types of MariaDB", "mariadb_types", _NO_DATA, _MARIADB),
    Case("colliding names", "collide", _NO_DATA),
    Case("options", "options"),
    _option("no schemas", "converter.schemas.enable", "false"),
    _option("no tombstones", "tombstones.on.delete", "false"),
    _option("no schema changes", "include.schema.changes", "false"),
    _option("no context headers", "extended.headers.enabled", "false"),
    _option("truncate as a row", "skipped.operations", "none"),
    _option("transactions", "provide.transaction.metadata", "true"),
    Case(
        "names for Avro",
        "options",
        {"schema.name.adjustment.mode": "avro", "field.name.adjustment.mode": "avro"},
    ),
    _option("own keys", "message.key.columns", "inv.customers:email;inv.nopk:b,a"),
    Case(
        "excluded columns",
        "options",
        {"column.exclude.list": r"inv\.customers\.(last_name|en|age),inv\..*\.(UPPER|v)"},
        source={"exclude-columns": ["inv.customers./^(last_name|en|age)$/", "inv.*.upper", "inv.*.v"]},
    ),
    Case(
        "masked columns",
        "options",
        {
            "column.mask.with.12.chars": r"inv\.customers\.first_name",
            "column.truncate.to.3.chars": r"inv\.customers\.last_name",
            "column.mask.hash.v2.SHA-256.with.salt.CzQMA0cB5K": r"inv\.nopk\.b",
            "column.mask.hash.SHA-512.with.salt.CzQMA0cB5K": r"inv\.customers\.email",
        },
        source={
            "mask-columns": {
                "inv.customers.first_name": "asterisks 12", "inv.customers.last_name": "truncate 3",
                "inv.nopk.b": "hash SHA-256", "inv.customers.email": "hash-v1 SHA-512",
            },
            "mask-salt": "CzQMA0cB5K",
        },
    ),
)  # fmt: skip
