"""The MERGE that applies the latest changes of a table; the text is the same for every table format."""

from __future__ import annotations

from changefeed.model.definition import Table


def quoted(name: str) -> str:
    """A name as Spark SQL reads it back."""
    return "`" + name.replace("`", "``") + "`"


def merge_sql(target: str, source: str, table: Table, extra: dict[str, str], *, partial: bool) -> str:
    """The statement that makes `target` equal to what the view `source` says.

    Args:
        target: the table as SQL names it.
        source: view with the columns of `stages.changes`, one row a key.
        extra: columns of ours in the target -> expression over the source.
        partial: `_has` tells which columns the row carries; the others keep their values.
    """
    place = {c.name: i for i, c in enumerate(table.columns)}
    on = " AND ".join(f"t.{quoted(k)} = s.c{place[k]}" for k in table.keys)

    def value(name: str) -> str:
        new = f"s.c{place[name]}"
        return f"CASE WHEN s._has[{place[name]}] THEN {new} ELSE t.{quoted(name)} END" if partial else new

    sets = [f"t.{quoted(c.name)} = {value(c.name)}" for c in table.columns]
    sets += [f"t.{quoted(name)} = {expression}" for name, expression in extra.items()]
    names = [quoted(c.name) for c in table.columns] + [quoted(name) for name in extra]
    values = [f"s.c{i}" for i in range(len(table.columns))] + list(extra.values())
    return (
        f"MERGE INTO {target} t USING {source} s ON {on} "
        "WHEN MATCHED AND s._deleted THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(sets)} "
        f"WHEN NOT MATCHED AND NOT s._deleted THEN INSERT ({', '.join(names)}) VALUES ({', '.join(values)})"
    )
