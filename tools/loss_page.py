"""docs/reference/loss.md: which keys of an event each protocol carries, and which are lost between two of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from changefeed.model.keys import KEYS
from changefeed.protocols import PROTOCOLS, protocol
from changefeed.protocols.base import Protocol
from changefeed.protocols.loss import NEEDED, fewest, loss
from tools.markdown import table

_INTRO = """# What is lost between protocols

A key of an event survives the way from one protocol to another when the first one carries it and so does the second.
`position` and `origin` are in no table: the one is the record's own, the other is what a single protocol says. What a
protocol has read it writes again byte for byte, whatever these tables say; they are about events from elsewhere.
`changefeed transcode` goes by them ([guide](../guides/translate.md)), and the conformance suite holds them against
recorded histories.
"""


def text() -> str:
    """The page."""
    spoken = [protocol(name) for name in PROTOCOLS]
    needed = [(f"`{key}`", why) for key, why in NEEDED.items()]
    return "\n".join(
        [
            _INTRO,
            "## Keys\n\nWith the defaults: yes, or –; else the options with which it is otherwise.\n",
            table(("key", "", *(f"`{p.name}`" for p in spoken)), (_row(key, spoken) for key in KEYS)),
            "Some keys rest on another: " + "; ".join(_rests(spoken)) + ".\n",
            "## What a pipeline needs\n\nA loss of one of these is refused unless it is allowed by name. So is the loss of "
            "what the cuts of the source rest on: " + ", ".join(_cuts(spoken)) + ".\n",
            table(("key", "because"), needed),
            "## From one to another\n\nWith the target's defaults, then with the options named. Of a source whose records "
            "tell what they carry, all that they can carry is counted. What is **refused** unless allowed stands in bold.\n",
            *(_section(source, spoken) for source in spoken),
        ]
    )


def _row(key: str, spoken: list[Protocol]) -> tuple[str, ...]:
    return (f"`{key}`", KEYS[key], *(_cell(key, known) for known in spoken))


def _cell(key: str, known: Protocol) -> str:
    """Whether it is carried with the defaults, and with which options it is not so."""
    usual = _carries(key, known, {})
    other = [v for v in known.variants if _carries(key, known, v) != usual]
    needed = [dict(fewest(v, lambda given: _carries(key, known, given) != usual)) for v in other]
    ways = [v for n, v in enumerate(needed) if v not in needed[:n]]
    said = "yes" if usual else "–"
    return "; ".join([said, *(f"{'–' if usual else 'yes'} with {_said(v)}" for v in ways)])


def _carries(key: str, known: Protocol, variant: Mapping[str, str]) -> bool:
    return key in known.capabilities_of(known.read_options(variant)).carries


def _said(variant: Mapping[str, str]) -> str:
    return " ".join(f"`{name}={value}`" for name, value in variant.items())


def _rests(spoken: list[Protocol]) -> Iterator[str]:
    for known in spoken:
        yield from (f"`{known.name}` tells `{key}` by `{on}`" for key, on in known.capabilities.requires.items())


def _cuts(spoken: list[Protocol]) -> Iterator[str]:
    return (f"`{p.capabilities.cut_key}` of `{p.name}`" for p in spoken if p.capabilities.cut_key)


def _section(source: Protocol, spoken: list[Protocol]) -> str:
    rows = []
    for target in spoken:
        for variant in ({}, *target.variants) if target is not source else ():
            found = loss(source, source.read_options({}), target, target.read_options(variant))
            lost = ", ".join(f"**{key}**" if key in found.needed else key for key in found.keys)
            rows.append((f"`{target.name}`", _said(variant), lost or "nothing"))
    return f"### From {source.name}\n\n" + table(("to", "with", "lost"), rows)
