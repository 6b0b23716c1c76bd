"""Generates docs/reference/loss.md: the keys of an event that each protocol carries, and those lost between two protocols."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from changefeed.model.keys import KEYS
from changefeed.protocols import PROTOCOLS, protocol
from changefeed.protocols.base import Protocol
from changefeed.protocols.loss import NEEDED, fewest, loss
from tools.markdown import table

_INTRO = """# What is lost between protocols

A key of an event is kept when it is transcoded from one protocol to another, if both protocols carry it. `position` and
`origin` are not in the tables: the first belongs to the record, the second to a single protocol. A protocol writes its own
records again byte for byte; the tables are about foreign events. `changefeed transcode` applies them
([guide](../guides/translate.md)), and the conformance suite compares them with recorded histories.
"""


def text() -> str:
    """Returns the text of the page."""
    known = [protocol(name) for name in PROTOCOLS]
    needed = [(f"`{key}`", why) for key, why in NEEDED.items()]
    return "\n".join(
        [
            _INTRO,
            "## Keys\n\nWith the defaults: yes, or –; else the options with which it is otherwise.\n",
            table(("key", "", *(f"`{p.name}`" for p in known)), (_row(key, known) for key in KEYS)),
            "Some keys require another: " + "; ".join(_requirements(known)) + ".\n",
            "## Keys that a pipeline needs\n\nThe loss of one of these is refused unless it is allowed by name. So is the loss "
            "of the key that the source's cuts require: " + ", ".join(_cuts(known)) + ".\n",
            table(("key", "because"), needed),
            "## From one to another\n\nWith the target's defaults, then with the named options. For a self-describing source, "
            "all keys that its records can carry are counted. Keys in **bold** are refused unless allowed.\n",
            *(_section(source, known) for source in known),
        ]
    )


def _row(key: str, protocols: list[Protocol]) -> tuple[str, ...]:
    return (f"`{key}`", KEYS[key], *(_cell(key, known) for known in protocols))


def _cell(key: str, known: Protocol) -> str:
    """Returns whether the key is carried with the defaults, and the options that change this."""
    usual = _carries(key, known, {})
    other = [v for v in known.variants if _carries(key, known, v) != usual]
    needed = [dict(fewest(v, lambda options: _carries(key, known, options) != usual)) for v in other]
    ways = [v for n, v in enumerate(needed) if v not in needed[:n]]
    default = "yes" if usual else "–"
    return "; ".join([default, *(f"{'–' if usual else 'yes'} with {_options(v)}" for v in ways)])


def _carries(key: str, known: Protocol, variant: Mapping[str, str]) -> bool:
    return key in known.capabilities_of(known.read_options(variant)).carries


def _options(variant: Mapping[str, str]) -> str:
    return " ".join(f"`{name}={value}`" for name, value in variant.items())


def _requirements(protocols: list[Protocol]) -> Iterator[str]:
    for known in protocols:
        yield from (f"`{known.name}` carries `{key}` by `{on}`" for key, on in known.capabilities.requires.items())


def _cuts(protocols: list[Protocol]) -> Iterator[str]:
    return (f"`{p.capabilities.cut_key}` of `{p.name}`" for p in protocols if p.capabilities.cut_key)


def _section(source: Protocol, protocols: list[Protocol]) -> str:
    rows = []
    for target in protocols:
        for variant in ({}, *target.variants) if target is not source else ():
            lost_keys = loss(source, source.read_options({}), target, target.read_options(variant))
            lost = ", ".join(f"**{key}**" if key in lost_keys.needed else key for key in lost_keys.keys)
            rows.append((f"`{target.name}`", _options(variant), lost or "nothing"))
    return f"### From {source.name}\n\n" + table(("to", "with", "lost"), rows)
