"""Frontiers: the commit_ts to which each table may advance in a step, by one of three strategies.

marks          all tables together, to the smallest resolved commit_ts of all partitions
transactions   all tables together, to the end of complete transactions
by_key         each table by itself, as far as schema changes allow (`consistency: key`)
"""

from __future__ import annotations

from changefeed.pipeline.frontier.base import Frontier, FrontierStrategy, Until
from changefeed.pipeline.frontier.by_key import ByKey
from changefeed.pipeline.frontier.marks import Marks
from changefeed.pipeline.frontier.transactions import Transactions
from changefeed.pipeline.planning.rules import Rules
from changefeed.protocols.base import Capabilities

__all__ = ["Frontier", "FrontierStrategy", "Until", "strategy"]


def strategy(consistency: str, capabilities: Capabilities, rules: Rules) -> FrontierStrategy:
    """The strategy for a pipeline's consistency and its source's capabilities."""
    if consistency == "key":
        return ByKey(capabilities)
    if capabilities.cuts == "transactions":
        return Transactions(rules.applies_incomplete)
    return Marks(rules.excluded, rules.restored_ddl)
