"""Where a change goes: `topic` its topic, `partition` its partition, `rules` which of several ways its table takes.

`matcher` has the patterns by which rules name tables.
"""

from changefeed.wire.dispatch.matcher import TableFilter
from changefeed.wire.dispatch.partition import RULES, Dispatcher, hash_of, value_text
from changefeed.wire.dispatch.rules import CaseSensitive, Dispatchers, Rule, Rules, check_index, heard
from changefeed.wire.dispatch.topic import check_topic, topic_name

__all__ = [
    "RULES",
    "CaseSensitive",
    "Dispatcher",
    "Dispatchers",
    "Rule",
    "Rules",
    "TableFilter",
    "check_index",
    "check_topic",
    "hash_of",
    "heard",
    "topic_name",
    "value_text",
]
