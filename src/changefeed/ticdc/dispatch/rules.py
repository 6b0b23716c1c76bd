"""TiCDC's `[sink] dispatchers`: which topic and which partition rule the changes of a table take.

    dispatchers = [
      {matcher = ["shop.log_*"], topic = "logs", partition = "ts"},
      {matcher = ["shop.*"], topic = "{schema}_{table}", partition = "columns", columns = ["customer_id"]},
    ]

Rule 1. The first rule whose matcher means the table counts. A table that none means goes to the default topic, by the
        default partition rule.
Rule 2. A rule without topic means the default topic; without partition the rule `default`. So does a partition rule
        that nobody knows, with a warning, as the producer does it.
Rule 3. `dispatcher` is what `partition` was called before v6.1.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from changefeed.errors import ConfigError
from changefeed.ticdc.dispatch.matcher import TableFilter
from changefeed.ticdc.dispatch.partition import RULES, Dispatcher, known_rule
from changefeed.ticdc.dispatch.topic import check_topic

_log = logging.getLogger(__name__)


class Rule(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """One entry of `dispatchers`, by the producer's own names."""

    matcher: tuple[str, ...]
    topic: str = ""
    partition: str = ""
    dispatcher: str = ""
    index: str = ""
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Checks what a type alone does not.

        Raises:
            ConfigError: the rule cannot work.
        """
        if self.partition and self.dispatcher:
            raise ConfigError(f"{self.name}: `dispatcher` is the old name of `partition`, give one of them")
        if self.topic:
            check_topic(self.topic)
        check_index(self.index)
        if (self.rule == "columns") != bool(self.columns):
            raise ConfigError(f'{self.name}: partition "columns" and `columns` need each other')

    @property
    def rule(self) -> str:
        """The partition rule, one that is known."""
        said = self.partition or self.dispatcher or "default"
        return said if known_rule(said) else "default"

    @property
    def name(self) -> str:
        """For messages: the option, and whose rule."""
        return f"dispatchers: rule of {', '.join(self.matcher)}"

    def warn(self) -> None:
        """Says so when the partition rule is not known."""
        said = self.partition or self.dispatcher
        if said and not known_rule(said):
            _log.warning(
                "%s: partition %s is unknown, so it is `default`. Known: %s", self.name, said, ", ".join(RULES)
            )


class Dispatchers:
    """The rules in their order. Without one there is nothing to choose.

    Raises:
        ConfigError: a matcher cannot be read.
    """

    def __init__(self, rules: Sequence[Rule], *, case_sensitive: bool = False) -> None:
        self._rules = [(TableFilter(rule.matcher, case_sensitive=case_sensitive), rule) for rule in rules]
        self._known: dict[tuple[str, str], Rule | None] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def rule(self, schema: str, table: str) -> Rule | None:
        """The rule that counts for a table; None for the default."""
        name = schema, table
        if name not in self._known:
            self._known[name] = next((rule for tables, rule in self._rules if tables.matches(schema, table)), None)
        return self._known[name]

    def ways(self, default: Dispatcher | None) -> dict[Rule | None, Dispatcher]:
        """Rule -> what it does, None -> what is done with all other tables; empty when partitions are kept.

        Raises:
            ConfigError: a rule chooses among partitions, and there is no default that knows how many there are.
        """
        rules = [rule for _, rule in self._rules]
        if default is None:
            named = next((rule for rule in rules if rule.partition or rule.dispatcher), None)
            if named is not None:
                raise ConfigError(f"{named.name} chooses among partitions: say how many with partition-num")
            return {}
        for rule in rules:
            rule.warn()
        found: dict[Rule | None, Dispatcher] = {None: default}
        return found | {rule: replace(default, rule=rule.rule, columns=rule.columns) for rule in rules}


def check_index(index: str | None) -> None:
    """Refuses a partition rule by the name of an index.

    Raises:
        ConfigError: there is one.
    """
    if index:
        raise ConfigError(f'index "{index}": changes do not carry indexes; use partition "columns" with its columns')
