"""TiCDC's `[sink] dispatchers`: topic and partition rule by table.

    dispatchers = [
      {matcher = ["shop.log_*"], topic = "logs", partition = "ts"},
      {matcher = ["shop.*"], topic = "{schema}_{table}", partition = "columns", columns = ["customer_id"]},
    ]

Rule 1. The first rule whose matcher selects the table applies. A table without a rule goes to the default topic, by the
        default partition rule.
Rule 2. A rule without topic uses the default topic, one without partition the rule `default`. An unknown partition rule
        is replaced by `default` with a warning, as the producer does.
Rule 3. `dispatcher` is the name of `partition` before v6.1.
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
    """One entry of `dispatchers`, with the producer's field names."""

    matcher: tuple[str, ...]
    topic: str = ""
    partition: str = ""
    dispatcher: str = ""
    index: str = ""
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Checks the rule beyond its types.

        Raises:
            ConfigError: the rule is invalid.
        """
        if self.partition and self.dispatcher:
            raise ConfigError(f"{self.name}: `dispatcher` is the old name of `partition`, set only one of them")
        if self.topic:
            check_topic(self.topic)
        check_index(self.index)
        if (self.rule == "columns") != bool(self.columns):
            raise ConfigError(f'{self.name}: partition "columns" and `columns` must be used together')

    @property
    def rule(self) -> str:
        """The partition rule; `default` if it is unset or unknown."""
        rule = self.partition or self.dispatcher or "default"
        return rule if known_rule(rule) else "default"

    @property
    def name(self) -> str:
        """The option and the rule's matcher, for messages."""
        return f"dispatchers: rule of {', '.join(self.matcher)}"

    def warn(self) -> None:
        """Logs a warning if the partition rule is unknown."""
        rule = self.partition or self.dispatcher
        if rule and not known_rule(rule):
            _log.warning("%s: partition %s is unknown, `default` is used. Known: %s", self.name, rule, ", ".join(RULES))


class Dispatchers:
    """The `dispatchers` of a changefeed: for each table, the first rule that matches it.

    Raises:
        ConfigError: a matcher is invalid.
    """

    def __init__(self, rules: Sequence[Rule], *, case_sensitive: bool = False) -> None:
        self._rules = [(TableFilter(rule.matcher, case_sensitive=case_sensitive), rule) for rule in rules]
        self._known: dict[tuple[str, str], Rule | None] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def rule(self, schema: str, table: str) -> Rule | None:
        """Returns the rule for a table; None for the default."""
        name = schema, table
        if name not in self._known:
            self._known[name] = next((rule for tables, rule in self._rules if tables.matches(schema, table)), None)
        return self._known[name]

    def ways(self, default: Dispatcher | None) -> dict[Rule | None, Dispatcher]:
        """Returns rule -> dispatcher, with `default` under None; empty if changes keep their partitions.

        Raises:
            ConfigError: a rule chooses among partitions, but there is no default with the number of partitions.
        """
        rules = [rule for _, rule in self._rules]
        if default is None:
            named = next((rule for rule in rules if rule.partition or rule.dispatcher), None)
            if named is not None:
                raise ConfigError(f"{named.name} chooses among partitions: set their number with partition-num")
            return {}
        for rule in rules:
            rule.warn()
        by_default: dict[Rule | None, Dispatcher] = {None: default}
        return by_default | {rule: replace(default, rule=rule.rule, columns=rule.columns) for rule in rules}


def check_index(index: str | None) -> None:
    """Checks that no partition rule names an index.

    Raises:
        ConfigError: `index` is set.
    """
    if index:
        raise ConfigError(f'index "{index}": changes do not carry indexes; use partition "columns" with its columns')
