"""The supported protocols: `list_protocols` of `import changefeed`, which is also the command `changefeed list`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from changefeed.model.keys import KEYS
from changefeed.protocols import PROTOCOLS, protocol


@dataclass(frozen=True, slots=True)
class ProtocolInfo:
    """A protocol that changefeed decodes and encodes.

    Attributes:
        name: the name that `read`, `write`, `decoder` and pipeline definitions take, such as `ticdc-open`.
        title: the name for people, such as `TiCDC Open Protocol`.
        ops: the ops that the protocol distinguishes: some of `insert`, `update`, `delete`, `read`, `upsert`.
        schema_changes, resolved, transactions, heartbeats: whether the protocol has events of this kind.
        cuts: what completes a cut: `marks` (resolved events or checkpoints), `transactions`, or `nothing`.
        carries: the parts of an event that the protocol can carry, by their keys in docs/reference/loss.md.
        options: the names of the protocol's options, as the producer spells them.
    """

    name: str
    title: str
    ops: tuple[str, ...]
    schema_changes: bool
    resolved: bool
    transactions: bool
    heartbeats: bool
    cuts: Literal["marks", "transactions", "nothing"]
    carries: tuple[str, ...]
    options: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Returns the attributes as plain values: one entry of `changefeed list --json`."""
        return msgspec.json.decode(msgspec.json.encode(self))  # type: ignore[no-any-return]


def list_protocols() -> list[ProtocolInfo]:
    """Returns every supported protocol, sorted by name.

    Example:
        >>> import changefeed as cf
        >>> {known.name: known.title for known in cf.list_protocols()}["ticdc-open"]
        'TiCDC Open Protocol'
    """
    return [_info(name) for name in sorted(PROTOCOLS)]


def _info(name: str) -> ProtocolInfo:
    known = protocol(name)
    can = known.capabilities
    return ProtocolInfo(
        name,
        known.title,
        tuple(sorted(can.ops)),
        can.schema_changes,
        can.resolved,
        can.transactions,
        can.heartbeats,
        can.cuts,
        tuple(key for key in KEYS if key in can.carries),
        tuple(field.encode_name for field in msgspec.structs.fields(known.options)),
    )
