"""`changefeed discover`: the tables of a MySQL or MariaDB server, and a definition that captures them."""

from __future__ import annotations

from pathlib import Path

import click

from changefeed.cli.options import common, example
from changefeed.cli.output import Output, many
from changefeed.sources.mysql.discovery import DiscoveredTable, Discovery
from changefeed.sources.mysql.discovery import discover as discover_tables

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@click.command(
    epilog=example("changefeed discover mysql://changefeed:secret@db.example.com/shop --write pipeline.yaml")
)
@click.argument("uri")
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a pipeline definition that captures these tables to a new file.",
)
@common
@click.pass_obj
def discover(output: Output, uri: str, write: Path | None) -> int:
    """Show the tables of a MySQL or MariaDB server: rows, sizes, keys and types; and what capture still needs.

    URI is mysql://user:password@host:port/database; without a database, all tables are shown. The numbers of rows are the
    server's estimates. Exit code 3 if a setting of the server or a right of the user is missing for capture.
    """
    result = discover_tables(uri)
    if output.json:
        tables = [table.to_dict() for table in result.tables]
        missing = [{"name": one.name, "value": one.value, "needed": one.needed, "fix": one.fix} for one in result.wrong]
        output.document({"version": result.version, "tables": tables, "missing": missing, "notes": list(result.notes)})
    else:
        output.table(["table", "rows", "size", "key", "columns"], [_row(table) for table in result.tables])
        output.lines([*map(str, result.wrong), *result.notes])
        output.note(f"{result.address}, {result.version}: {many(len(result.tables), 'table')}")
    if write is not None:
        _write(result, write)
        output.note(f"wrote {write}; set MYSQL_PASSWORD, then: changefeed check {write}")
    return 3 if result.wrong else 0


def _row(table: DiscoveredTable) -> list[str]:
    columns = ", ".join(f"{name} {kind}" for name, kind in table.columns.items())
    key = ", ".join(table.key) or "none"
    return [f"{table.database}.{table.table}", f"{table.rows:,}", _size(table.size_bytes), key, columns]


def _size(count: int) -> str:
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {_UNITS[unit]}"


def _write(result: Discovery, path: Path) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(result.definition())
    except FileExistsError as error:
        raise click.UsageError(f"{path} exists; name another file") from error
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}") from error
