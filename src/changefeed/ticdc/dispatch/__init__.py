"""Where a change goes: `topic` its topic, `partition` its partition, `rules` which of several ways its table takes.

`matcher` has the patterns by which rules name tables, `options` what a user says of all this.
"""

from changefeed.ticdc.dispatch.matcher import TableFilter
from changefeed.ticdc.dispatch.options import (
    CaseSensitive,
    Columns,
    Dispatching,
    Index,
    Partition,
    PartitionNum,
    Rules,
    Topic,
)
from changefeed.ticdc.dispatch.partition import RULES, Dispatcher, hash_of, value_text
from changefeed.ticdc.dispatch.rules import Dispatchers, Rule
from changefeed.ticdc.dispatch.topic import check_topic, topic_name

__all__ = [
    "RULES",
    "CaseSensitive",
    "Columns",
    "Dispatcher",
    "Dispatchers",
    "Dispatching",
    "Index",
    "Partition",
    "PartitionNum",
    "Rule",
    "Rules",
    "TableFilter",
    "Topic",
    "check_topic",
    "hash_of",
    "topic_name",
    "value_text",
]
