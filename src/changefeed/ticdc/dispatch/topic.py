"""The topic of a table's changes: a name, or an expression that contains the table's name.

    shop                      a topic of that name
    x_{schema}_{table}        shop.orders goes to x_shop_orders

A character that is not allowed in topics becomes `_`; the name is truncated to 249 characters.
"""

from __future__ import annotations

import re

from changefeed.errors import ConfigError

_TOPIC = re.compile(r"[A-Za-z0-9._-]*(\{schema\})?([A-Za-z0-9._-]*\{table\})?[A-Za-z0-9._-]*")
_NOT_IN_TOPIC = re.compile(r"[^A-Za-z0-9._-]")
_TOPIC_LENGTH = 249


def topic_name(expression: str, schema: str, table: str) -> str:
    """Returns the topic of an expression for a table.

    Raises:
        ConfigError: the expression is invalid.
    """
    check_topic(expression)
    name = expression.replace("{schema}", _NOT_IN_TOPIC.sub("_", schema))
    name = name.replace("{table}", _NOT_IN_TOPIC.sub("_", table))[:_TOPIC_LENGTH]
    return "_" * len(name) if name in (".", "..") else name


def check_topic(expression: str) -> None:
    """Checks a topic name or expression.

    Raises:
        ConfigError: the expression is invalid.
    """
    if not expression or not _TOPIC.fullmatch(expression):
        raise ConfigError(
            f"invalid topic expression: {expression}; expected letters, digits, . _ - and {{schema}} before {{table}}"
        )
