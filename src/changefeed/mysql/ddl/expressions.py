"""The expressions of generated columns: whether two are the same, and the columns that one names."""

from __future__ import annotations

from collections.abc import Mapping

from changefeed.errors import UnsupportedError
from changefeed.model.escaped_names import escaped
from changefeed.mysql.ddl.tokens import Token, Tokens


def same(first: str, second: str) -> bool:
    """Whether two expressions have the same tokens, ignoring the case and the quotes of names."""
    return _normal(first) == _normal(second)


def names_in(expression: str) -> set[str]:
    """The tokens of the expression that can be columns, in lower case; also escaped, as the table may have them."""
    names = {value for kind, value in _normal(expression) if kind == "name"}
    return names | {escaped(name).lower() for name in names}


def renamed(expression: str, names: Mapping[str, str]) -> str:
    """The expression with other names of columns.

    Args:
        expression: its text.
        names: lower-case name -> new name.
    """
    text, end = "", 0
    for token in _tokens(expression):
        new = None
        if token.kind in ("name", "word"):
            new = names.get(token.value.lower()) or names.get(escaped(token.value).lower())
        if new is not None and new.lower() != token.value.lower():
            text += expression[end : token.start] + "`" + new.replace("`", "``") + "`"
            end = token.end
    return text + expression[end:]


def _normal(expression: str) -> list[tuple[str, str]]:
    return [
        ("name", token.value.lower()) if token.kind in ("name", "word") else (token.kind, token.raw)
        for token in _tokens(expression)
    ]


def _tokens(expression: str) -> list[Token]:
    tokens, read = Tokens(expression), []
    try:
        while (token := tokens.take()).kind != "end":
            read.append(token)
    except UnsupportedError:  # of a server with another sql_mode
        return [Token("text", expression, 0, len(expression))]
    return read
