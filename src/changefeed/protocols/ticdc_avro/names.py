"""Names: of tables and columns in schemas, of subjects, and of tables behind topics.

    record      sanitise(table), in the namespace sanitise(namespace).sanitise(schema)       default.shop  orders
    field       sanitise(column)
    subject     the topic with `.` as `_`, then -key or -value                               shop_orders-value

Avro has letters, digits and `_`, so a record's name is not always the table's. A topic keeps `.` and `-` too, and it
follows a RENAME, which newarch's records do not: with a topic rule the table is read from the topic.
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
    """The name as Avro can have it: other characters become `_`, a digit in front gets one."""
    plain = _INVALID.sub("_", name)
    return "_" + plain if plain[:1].isdigit() else plain


def full_namespace(namespace: str, schema: str) -> str:
    """The namespace of a table's records."""
    return f"{sanitise(namespace)}.{sanitise(schema)}" if schema else sanitise(namespace)


def subject(topic: str, part: str) -> str:
    """The subject of a topic's keys or values; `part` is key or value."""
    return f"{topic.replace('.', '_')}-{part}"


def check_topic(expression: str) -> None:
    """Checks a topic's name or expression; an expression must hold schema and table.

    Raises:
        ConfigError: it cannot name topics.
    """
    dispatch.check_topic(expression)
    if _PLACEHOLDER.search(expression) and not _EXPRESSION.fullmatch(expression):
        raise ConfigError(
            f"invalid topic expression: {expression}: topic rule for Avro must contain {{schema}} and {{table}}"
        )


@dataclass(frozen=True, slots=True)
class TopicRule:
    """A topic rule read backwards: which table a topic is for."""

    expression: str

    def names(self, topic: str, schema: str, table: str) -> tuple[str, str]:
        """Schema and table behind a topic; `schema` and `table` are those of the record, for what the topic lacks.

        A topic may be cut in several ways (`a_b_c` by `{schema}_{table}`); the record's schema decides which is meant.
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
