"""Names of tables and columns in Avro schemas, of subjects, and of the tables of topics.

    record      sanitise(table), in the namespace sanitise(namespace).sanitise(schema)       default.shop  orders
    field       sanitise(column)
    subject     the topic with `.` as `_`, then -key or -value                               shop_orders-value

Names in Avro consist of letters, digits and `_`, so a record's name is not always the table's. A topic may also have `.` and
`-`, and changes with a RENAME, unlike newarch's records: with a topic rule the table is derived from the topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from changefeed.errors import ConfigError
from changefeed.ticdc import dispatch

_INVALID = re.compile(r"[^A-Za-z0-9_]")
_EXPRESSION = re.compile(r"[A-Za-z0-9._-]*\{schema\}[A-Za-z0-9._-]*\{table\}[A-Za-z0-9._-]*")
_PLACEHOLDER = re.compile(r"\{schema\}|\{table\}")
_CUT = 249  # longer topics are cut: what is left does not name the table


def sanitise(name: str) -> str:
    """Converts a name to one that Avro allows: other characters become `_`, a first digit gets a `_` before it."""
    plain = _INVALID.sub("_", name)
    return "_" + plain if plain[:1].isdigit() else plain


def full_namespace(namespace: str, schema: str) -> str:
    """Returns the namespace of a table's records."""
    return f"{sanitise(namespace)}.{sanitise(schema)}" if schema else sanitise(namespace)


def subject(topic: str, part: str) -> str:
    """Returns the subject of a topic's keys or values; `part` is `key` or `value`."""
    return f"{topic.replace('.', '_')}-{part}"


def check_topic(expression: str) -> None:
    """Checks the name or expression of topics; an expression must contain schema and table.

    Raises:
        ConfigError: the expression is invalid.
    """
    dispatch.check_topic(expression)
    if _PLACEHOLDER.search(expression) and not _EXPRESSION.fullmatch(expression):
        raise ConfigError(
            f"invalid topic expression: {expression}: topic rule for Avro must contain {{schema}} and {{table}}"
        )


@dataclass(frozen=True, slots=True)
class TopicRule:
    """Inverts a topic rule: returns the table of a topic."""

    expression: str

    def names(self, topic: str, schema: str, table: str) -> tuple[str, str]:
        """Returns schema and table of a topic; parts that the topic lacks are taken from the record (`schema`, `table`).

        If a topic can be split in several ways (`a_b_c` by `{schema}_{table}`), the record's schema decides.
        """
        pairs = [(s, t) for s, t in self._cuts(topic) if sanitise(s) == schema and t]
        return pairs[0] if len(pairs) == 1 else (schema, table)

    def _cuts(self, topic: str) -> Iterator[tuple[str, str]]:
        before, schema, rest = self.expression.partition("{schema}")
        between, table, after = rest.partition("{table}")
        if not schema or not table or len(topic) >= _CUT:
            return
        if len(topic) < len(before) + len(after) or not topic.startswith(before) or not topic.endswith(after):
            return
        inner = topic[len(before) : len(topic) - len(after)]
        for at in range(len(inner) - len(between) + 1):
            if inner.startswith(between, at):
                yield inner[:at], inner[at + len(between) :]
