"""The definition of a column: its name, its type, and attributes in any order.

`note` VARCHAR(40) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'x' COMMENT '…' AFTER `id`
^name  ^type       ^attributes: those without effect on rows are skipped; an unknown one is an error
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from changefeed.model.definition import PRIMARY, UniqueKey
from changefeed.model.table import Column, Declared
from changefeed.model.types import ColumnType
from changefeed.mysql.ddl.tables import column_name
from changefeed.mysql.ddl.tokens import Tokens
from changefeed.mysql.ddl.types import HAVE_CHARSET, binary, column_type, zero_padding


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column definition in DDL.

    Attributes:
        generated: `virtual`, `stored`, or None.
        counted: AUTO_INCREMENT.
        keys: names of the unique keys that the definition itself declares: `PRIMARY`, or "" for an unnamed one.
        charset: the declared character set; None if the table's applies.
        undeclared: a TIMESTAMP that declares neither NULL, NOT NULL nor a default: a setting of the server decides.
    """

    column: Column
    generated: str | None = None
    counted: bool = False
    keys: tuple[str, ...] = ()
    charset: str | None = None
    undeclared: bool = False

    @property
    def uniques(self) -> list[UniqueKey]:
        """The unique keys that the definition itself declares."""
        return [UniqueKey(name, (self.column.name,)) for name in self.keys]


@dataclass(slots=True)
class _Draft:
    """A definition while its attributes are parsed."""

    unsigned: bool = False
    zerofill: bool = False
    charset: str | None = None
    nullable: bool | None = None
    default: str | None = None
    defaulted: bool = False
    generated: str | None = None
    expression: str | None = None
    counted: bool = False
    updated: bool = False
    comment: str | None = None
    keys: dict[str, None] = field(default_factory=dict)  # in order, each once


def definition(tokens: Tokens) -> ColumnDefinition:
    """Takes a column definition."""
    name = column_name(tokens)
    word, start = tokens.peek().upper, tokens.peek().start
    t = column_type(tokens)
    written = tokens.text[start : tokens.passed]
    draft = _Draft(charset=HAVE_CHARSET.get(word))
    if word == "SERIAL":
        _serial(tokens, draft)
    while (read := _attribute(tokens)) is not None:
        tokens.take()
        read(tokens, draft)
    column = _column(name, t, written, draft)
    undeclared = t.name == "timestamp" and draft.nullable is None and not draft.defaulted and not tokens.restored
    return ColumnDefinition(column, draft.generated, draft.counted, tuple(draft.keys), draft.charset, undeclared)


def _attribute(tokens: Tokens) -> Callable[[Tokens, _Draft], None] | None:
    """The function for the next attribute, None if no attribute comes next."""
    read = _ATTRIBUTES.get(tokens.peek().upper)
    if read is None and tokens.peek().kind in ("word", "name") and tokens.peek(1).upper == "=":
        return _value  # MariaDB: of a storage engine
    return read


def _column(name: str, t: ColumnType, written: str, draft: _Draft) -> Column:
    if draft.charset == "binary":
        t = binary(t)
    if draft.unsigned:
        t = replace(t, unsigned=True, length=None if t.name == "tinyint" else t.length)
    nullable = draft.nullable is not False and PRIMARY not in draft.keys
    padding = zero_padding(t, written) if draft.zerofill else 0
    declared = Declared(written, draft.counted, draft.comment, draft.updated)
    return Column(name, t, nullable, False, draft.default, draft.expression, padding, declared=declared)


def default(tokens: Tokens) -> str | None:
    """Takes a default value; returns its SQL text, None for NULL."""
    if tokens.accept("NULL"):
        return None
    start = tokens.peek().start
    if tokens.peek().upper == "(":
        tokens.skip_group()
        return tokens.text[start : tokens.passed]
    if tokens.accept("{"):  # d'2026-01-02'}, as ODBC writes it
        tokens.name()
        tokens.literal()
        tokens.expect("}")
        return tokens.text[start : tokens.passed]
    tokens.accept_any("+", "-")
    if tokens.peek().kind in ("sign", "end"):
        tokens.fail("expected a default value")
    introduced = tokens.peek().kind == "word" and tokens.peek().raw[0] == "_"
    first = tokens.take()
    if introduced and tokens.peek().kind in ("text", "bits"):
        tokens.take()
    elif first.kind in ("word", "name"):
        while tokens.accept("."):
            tokens.name()
        if tokens.peek().upper == "(":
            tokens.skip_group()
    if first.upper == "NEXT":  # … VALUE FOR `db`.`sequence`
        tokens.expect("VALUE", "FOR")
        column_name(tokens)
    while tokens.peek().kind == "text":  # 'a' 'b' is one literal
        tokens.take()
    return tokens.text[start : tokens.passed]


# Attributes: each function takes the tokens after the attribute's first word.


def _not(tokens: Tokens, draft: _Draft) -> None:
    if tokens.accept_any("SECONDARY", "ENFORCED", "VISIBLE"):
        return
    tokens.expect("NULL")
    draft.nullable = False


def _null(tokens: Tokens, draft: _Draft) -> None:
    draft.nullable = True


def _default(tokens: Tokens, draft: _Draft) -> None:
    draft.default, draft.defaulted = default(tokens), True


def _counted(tokens: Tokens, draft: _Draft) -> None:
    draft.counted = True


def _serial(tokens: Tokens, draft: _Draft) -> None:
    draft.nullable, draft.counted = False, True
    draft.keys[""] = None


def _serial_default(tokens: Tokens, draft: _Draft) -> None:
    tokens.expect("DEFAULT", "VALUE")
    _serial(tokens, draft)


def _unique(tokens: Tokens, draft: _Draft) -> None:
    tokens.accept("KEY")
    draft.keys[""] = None


def _primary(tokens: Tokens, draft: _Draft) -> None:
    tokens.expect("KEY")
    _key(tokens, draft)


def _key(tokens: Tokens, draft: _Draft) -> None:
    draft.keys[PRIMARY] = None


def _unsigned(tokens: Tokens, draft: _Draft) -> None:
    draft.unsigned = True


def _zerofill(tokens: Tokens, draft: _Draft) -> None:
    draft.unsigned = draft.zerofill = True


def _character(tokens: Tokens, draft: _Draft) -> None:
    tokens.expect("SET")
    _charset(tokens, draft)


def _charset(tokens: Tokens, draft: _Draft) -> None:
    tokens.accept("=")
    draft.charset = tokens.take().value.lower()


def _collate(tokens: Tokens, draft: _Draft) -> None:
    tokens.accept("=")
    charset = tokens.take().value.lower().partition("_")[0]
    draft.charset = charset if charset == "binary" else draft.charset or charset


def _ascii(tokens: Tokens, draft: _Draft) -> None:
    draft.charset = "latin1"


def _unicode(tokens: Tokens, draft: _Draft) -> None:
    draft.charset = "ucs2"


def _byte(tokens: Tokens, draft: _Draft) -> None:
    draft.charset = "binary"


def _generated(tokens: Tokens, draft: _Draft) -> None:
    tokens.expect("ALWAYS", "AS")
    _as(tokens, draft)


def _as(tokens: Tokens, draft: _Draft) -> None:
    draft.generated = "virtual"
    start = tokens.peek().start
    if tokens.accept("ROW"):  # MariaDB's system versioning
        tokens.take()
        draft.generated = "stored"
    else:
        tokens.skip_group()
    draft.expression = tokens.text[start : tokens.passed]


def _virtual(tokens: Tokens, draft: _Draft) -> None:
    draft.generated = "virtual"


def _stored(tokens: Tokens, draft: _Draft) -> None:
    draft.generated = "stored"


def _on(tokens: Tokens, draft: _Draft) -> None:
    tokens.expect("UPDATE")
    tokens.take()
    draft.updated = True
    if tokens.peek().upper == "(":
        tokens.skip_group()


def _references(tokens: Tokens, draft: _Draft) -> None:
    tokens.name()
    if tokens.accept("."):
        tokens.name()
    if tokens.peek().upper == "(":
        tokens.skip_group()
    while tokens.accept_any("MATCH", "ON"):
        tokens.accept_any("DELETE", "UPDATE")
        if tokens.accept_any("SET", "NO") or tokens.peek().kind == "word":
            tokens.take()


def _constraint(tokens: Tokens, draft: _Draft) -> None:
    if tokens.peek().upper not in ("CHECK", "PRIMARY", "UNIQUE", "REFERENCES", "NOT", "NULL"):
        tokens.name()


def _group(tokens: Tokens, draft: _Draft) -> None:
    tokens.skip_group()


def _optional_group(tokens: Tokens, draft: _Draft) -> None:
    if tokens.peek().upper == "(":
        tokens.skip_group()


def _value(tokens: Tokens, draft: _Draft) -> None:
    tokens.accept("=")
    tokens.take()


def _comment(tokens: Tokens, draft: _Draft) -> None:
    tokens.accept("=")
    draft.comment = tokens.take().value


def _optional_value(tokens: Tokens, draft: _Draft) -> None:
    if tokens.accept("="):
        tokens.take()


def _with(tokens: Tokens, draft: _Draft) -> None:
    if tokens.accept("COMPRESSION_DICTIONARY"):  # Percona
        tokens.name()
    else:
        tokens.expect("SYSTEM", "VERSIONING")


def _nothing(tokens: Tokens, draft: _Draft) -> None:
    """Attribute of one word, without effect on rows."""


_ATTRIBUTES: dict[str, Callable[[Tokens, _Draft], None]] = {
    "NOT": _not,
    "NULL": _null,
    "DEFAULT": _default,
    "AUTO_INCREMENT": _counted,
    "AUTO_RANDOM": _optional_group,
    "SERIAL": _serial_default,
    "UNIQUE": _unique,
    "PRIMARY": _primary,
    "KEY": _key,
    "UNSIGNED": _unsigned,
    "ZEROFILL": _zerofill,
    "SIGNED": _nothing,
    "CHARACTER": _character,
    "CHAR": _character,
    "CHARSET": _charset,
    "COLLATE": _collate,
    "BYTE": _byte,
    "BINARY": _nothing,
    "ASCII": _ascii,
    "UNICODE": _unicode,
    "GENERATED": _generated,
    "AS": _as,
    "VIRTUAL": _virtual,
    "STORED": _stored,
    "PERSISTENT": _stored,
    "ON": _on,
    "REFERENCES": _references,
    "CONSTRAINT": _constraint,
    "CHECK": _group,
    "ENFORCED": _nothing,
    "COMMENT": _comment,
    "COLUMN_FORMAT": _value,
    "STORAGE": _value,
    "ENGINE_ATTRIBUTE": _value,
    "SECONDARY_ENGINE_ATTRIBUTE": _value,
    "SRID": _value,
    "REF_SYSTEM_ID": _value,
    "COMPRESSED": _optional_value,
    "VISIBLE": _nothing,
    "INVISIBLE": _nothing,
    "CLUSTERED": _nothing,
    "NONCLUSTERED": _nothing,
    "GLOBAL": _nothing,
    "LOCAL": _nothing,
    "WITH": _with,
    "WITHOUT": _with,
}
