"""The MERGE that applies the latest changes of a table; the text is the same for every table format."""

from __future__ import annotations

from changefeed.model.definition import Table

IRREGULAR = "_irregular"


def quoted(name: str) -> str:
    """A name as Spark SQL reads it back."""
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    """A string as a Spark SQL literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def merge_sql(target: str, source: str, table: Table, extra: dict[str, str], *, partial: bool) -> str:
    """The statement that makes `target` equal to what the view `source` says.

    Args:
        target: the table as SQL names it.
        source: view with the columns of `stages.changes`, one row a key.
        table: the target's columns, and its keys: it has some.
        extra: columns of ours in the target -> expression over the source.
        partial: `_has` tells which columns the row carries; the others keep their values, and what is told of them.
    """
    place = {c.name: i for i, c in enumerate(table.columns)}
    on = " AND ".join(f"t.{quoted(k)} = s.c{place[k]}" for k in table.keys)

    def value(name: str) -> str:
        new = f"s.c{place[name]}"
        return f"CASE WHEN s._has[{place[name]}] THEN {new} ELSE t.{quoted(name)} END" if partial else new

    def ours(name: str, expression: str) -> str:
        return _told(table, expression) if partial and name == IRREGULAR else expression

    sets = [f"t.{quoted(c.name)} = {value(c.name)}" for c in table.columns]
    sets += [f"t.{quoted(name)} = {ours(name, expression)}" for name, expression in extra.items()]
    names = [quoted(c.name) for c in table.columns] + [quoted(name) for name in extra]
    values = [f"s.c{i}" for i in range(len(table.columns))] + list(extra.values())
    return (
        f"MERGE INTO {target} t USING {source} s ON {on} "
        "WHEN MATCHED AND s._deleted THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(sets)} "
        f"WHEN NOT MATCHED AND NOT s._deleted THEN INSERT ({', '.join(names)}) VALUES ({', '.join(values)})"
    )


def _told(table: Table, new: str) -> str:
    """The irregular texts of the columns that the change does not carry, with those that it tells."""
    columns = ", ".join(text(c.name) for c in table.columns)
    carried = f"coalesce(get(s._has, CAST(array_position(array({columns}), k) AS int) - 1), true)"
    kept = f"map_filter(t.{quoted(IRREGULAR)}, (k, v) -> NOT {carried})"
    return f"CASE WHEN t.{quoted(IRREGULAR)} IS NULL THEN {new} ELSE map_concat({kept}, {new}) END"
