"""TiCDC's dispatchers: `topic` chooses a change's topic, `partition` its partition, `rules` the rule for its table.

`matcher` implements the table patterns of rules, `options` the options.
"""

from changefeed.ticdc.dispatch.matcher import TableFilter
from changefeed.ticdc.dispatch.options import (
    CaseSensitive,
    Columns,
    Dispatching,
    DispatchRules,
    Index,
    Partition,
    PartitionNum,
    Topic,
)
from changefeed.ticdc.dispatch.partition import RULES, Dispatcher, hash_of, value_text
from changefeed.ticdc.dispatch.rules import Dispatchers, Rule
from changefeed.ticdc.dispatch.topic import check_topic, topic_name

__all__ = [
    "RULES",
    "CaseSensitive",
    "Columns",
    "DispatchRules",
    "Dispatcher",
    "Dispatchers",
    "Dispatching",
    "Index",
    "Partition",
    "PartitionNum",
    "Rule",
    "TableFilter",
    "Topic",
    "check_topic",
    "hash_of",
    "topic_name",
    "value_text",
]
