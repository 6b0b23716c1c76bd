"""The rights of a user to read tables, from the server's SHOW GRANTS.

A table on which a user has no right is in no list that the server gives to it, but in the log. A pipeline that captures it would
have only the rows that change: so patterns that select more than the user may read are refused.

Rule 1. A pattern with one database needs SELECT on it, or with one table on that; any other pattern needs SELECT everywhere.
Rule 2. Of a database's rights, those under its very name count before those under a pattern of names, as for the server.
Rule 3. Rights of roles count if the role is active in a new session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from changefeed.errors import AccessError
from changefeed.sources.mysql.server import Requirement, Server
from changefeed.sources.mysql.tables import quoted
from changefeed.ticdc.dispatch.matcher import TableFilter

_NAME = r"""(\*|`(?:[^`]|``)*`|"(?:[^"]|"")*"|[^\s.`"]+)"""
_LINE = re.compile(rf"(GRANT|REVOKE) (.+?) ON (?:TABLE )?{_NAME}\.{_NAME} (?:TO|FROM) ", re.DOTALL)
_RIGHT = re.compile(r"[^,(]+(?:\([^)]*\))?")
_READ = {"SELECT", "ALL PRIVILEGES"}
_WILD = {"%": ".*", "_": "."}
_PIECE = re.compile(r"\\(?P<escaped>[%_\\])|(?P<plain>.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Readable:
    """The databases and tables that a user may read.

    Attributes:
        everything: whether it may read all databases, apart from those of `revoked`.
        databases: the databases, or patterns of their names, on which it has rights -> whether SELECT is one of them.
        tables: database and table of single tables.
        revoked: databases that it may not read.
        exact: whether the server takes names of databases as they are, not as patterns (`partial_revokes` of MySQL).
        ignores_case: whether the server ignores the case of names.
    """

    everything: bool = False
    databases: Mapping[str, bool] = field(default_factory=dict)
    tables: frozenset[tuple[str, str]] = frozenset()
    revoked: frozenset[str] = frozenset()
    exact: bool = False
    ignores_case: bool = False

    @classmethod
    def of(cls, grants: Iterable[str], *, exact: bool, ignores_case: bool) -> Readable:
        """Reads the lines of SHOW GRANTS."""
        everything, databases = False, dict[str, bool]()
        tables, revoked = set[tuple[str, str]](), set[str]()
        for line in grants:
            match = _LINE.match(line)
            if match is None:  # a role, or a routine
                continue
            reads, database, table = bool(_rights(match[2]) & _READ), _unquoted(match[3]), _unquoted(match[4])
            if ignores_case:
                database, table = database.lower(), table.lower()
            if match[1] == "REVOKE":
                revoked |= {database} if reads else set()
            elif match[3] == "*":
                everything = everything or reads
            elif match[4] == "*":
                databases[database] = databases.get(database, False) or reads
            elif reads:
                tables.add((database, table))
        return cls(everything, databases, frozenset(tables), frozenset(revoked), exact, ignores_case)

    def lacks(self, selector: TableFilter) -> list[tuple[str, str]]:
        """Returns the patterns that select more than the user may read, each with the object of the GRANT that it needs."""
        lacking = []
        for pattern, database, table in selector.included():
            if self.everything:
                hidden = [name for name in self.revoked if selector.matches(name, table or "a table")]
                lacking += [(pattern, f"{quoted(name)}.*") for name in hidden if database in (None, name)]
            elif database is None:
                lacking.append((pattern, "*.*"))
            elif not self._reads(database, table):
                lacking.append((pattern, self._granted(database, table)))
        return lacking

    def _granted(self, database: str, table: str | None) -> str:
        """The object of a GRANT on just this database or table."""
        if table is not None:
            return f"{quoted(database)}.{quoted(table)}"
        name = database if self.exact else re.sub(r"[%_]", r"\\\g<0>", database)  # otherwise it is a pattern
        return f"{quoted(name)}.*"

    def _reads(self, database: str, table: str | None) -> bool:
        if self.ignores_case:
            database, table = database.lower(), table and table.lower()
        if table is not None and (database, table) in self.tables:
            return True
        patterns = [(text if self.exact else _unescaped(text), reads) for text, reads in self.databases.items()]
        named = [reads for name, reads in patterns if name == database]
        matching = [reads for text, reads in self.databases.items() if not self.exact and _matches(text, database)]
        return all(named or matching) and bool(named or matching)


def unreadable(server: Server, selector: TableFilter) -> list[Requirement]:
    """Returns the rights to read what patterns select that the user lacks."""
    rule = server.lower_case_table_names
    readable = Readable.of(_grants(server), exact=_is_exact(server), ignores_case=rule > 0)
    lacking = readable.lacks(selector)
    [(user,)] = server.texts("SELECT CURRENT_USER()") if lacking else [("",)]
    account = "@".join(f"'{part}'" for part in user.rsplit("@", 1))
    return [
        Requirement(
            f"the right SELECT on what source.tables selects by {pattern}", "missing", "granted",
            f"GRANT SELECT ON {of} TO {account}, or select only what the user may read",
        )
        for pattern, of in lacking
    ]  # fmt: skip


def check_readable(server: Server, selector: TableFilter) -> None:
    """Checks that the user may read all tables that patterns select.

    Raises:
        AccessError: it may not.
    """
    if lacking := unreadable(server, selector):
        raise AccessError(
            f"{server.address} hides tables from this user, whose changes are in the log: {'; '.join(map(str, lacking))}"
        )


def _grants(server: Server) -> list[str]:
    lines = [line for (line,) in server.texts("SHOW GRANTS")]
    if server.kind == "mysql" and any(" ON " not in line for line in lines):  # roles; MariaDB lists their rights
        [(roles,)] = server.texts("SELECT CURRENT_ROLE()")
        if roles != "NONE":
            lines = [line for (line,) in server.texts(f"SHOW GRANTS FOR CURRENT_USER() USING {roles}")]
    return lines


def _unescaped(pattern: str) -> str | None:
    """The name that a pattern of a database matches; None if it matches several."""
    pieces = list(_PIECE.finditer(pattern))
    if any(piece["plain"] in _WILD for piece in pieces):
        return None
    return "".join(piece["escaped"] or piece["plain"] for piece in pieces)


def _matches(pattern: str, database: str) -> bool:
    pieces = (
        _WILD.get(piece["plain"]) or re.escape(piece["escaped"] or piece["plain"]) for piece in _PIECE.finditer(pattern)
    )
    return re.fullmatch("".join(pieces), database, re.DOTALL) is not None


def _is_exact(server: Server) -> bool:
    return ("partial_revokes", "ON") in server.texts("SHOW GLOBAL VARIABLES LIKE 'partial_revokes'")


def _rights(text: str) -> set[str]:
    """The rights of a line; one on single columns keeps them, and is not that on a table."""
    return {right.strip() for right in _RIGHT.findall(text)}


def _unquoted(name: str) -> str:
    quote = name[:1]
    return name[1:-1].replace(quote * 2, quote) if quote in ("`", '"') else name
