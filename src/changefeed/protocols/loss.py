"""The keys that are lost from one protocol to another, and those that a pipeline needs.

Rule 1. A key is lost when events of the source may have it and the target does not carry it, or derives it from another
        key that the source is not known to have.
Rule 2. Records of a source may have the keys that follow from its options; if its decoder uses the records and not
        options, all that the protocol can carry. From a protocol to itself the options decide for both sides, as rows are
        written as they were read; but schema changes and resolved events, which options may leave out, all count. If
        options do not change how the protocol's own events are written (`verbatim`), nothing is lost.
Rule 3. `NEEDED` is all that a pipeline needs of changes: without one of these keys its tables differ from the upstream,
        or there is no point at which they are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from changefeed.errors import ConfigError, unknown_name
from changefeed.model.keys import KEYS
from changefeed.protocols.base import Options, Protocol

NEEDED: dict[str, str] = {
    "op.insert": "a table without a key accepts only inserts",
    "op.update": "an update would be one more row of a table without a key",
    "op.delete": "deleted rows would stay in the table",
    "keys": "rows are merged by their handle key",
    "before": "without it, the old row stays when a key changes, and a row without a key cannot be found",
    "after": "it is the row that the table gets",
    "values": "a table would have other values than the upstream",
    "delete.keys": "it would be unknown which row was deleted",
    "order": "changes in different records could not be put in order",
    "schema": "tables would keep their old columns, and truncated tables their rows",
}
_CUTS = "a pipeline would have no cuts: no point at which all tables are complete"


@dataclass(frozen=True, slots=True)
class FixWords:
    """Wording of fixes, for the command line or for Python: allow a loss, set options of the target or of the source."""

    allow: Callable[[tuple[str, ...]], str]
    target: Callable[[Mapping[str, str]], str]
    source: Callable[[Mapping[str, str]], str]


def _flags(flag: str) -> Callable[[Mapping[str, str]], str]:
    return lambda options: " ".join(f"{flag} {name}={value}" for name, value in options.items())


COMMAND = FixWords(lambda keys: f"--allow-loss {','.join(keys)}", _flags("-O"), _flags("-o"))
PYTHON = FixWords(
    lambda keys: f"allow_loss={list(keys)}",
    lambda options: f"target_options={dict(options)}",
    lambda options: f"source_options={dict(options)}",
)


@dataclass(frozen=True, slots=True)
class Loss:
    """The parts that events of one protocol lose in another.

    Attributes:
        source, target: names of the protocols.
        keys: the keys that are lost, in the order of `model.keys.KEYS`.
        needed: lost keys that a pipeline needs -> why.
        remedies: options of the target with which fewer needed keys are lost; as few options as possible, maybe none.
        stated: options of the source which declare that its records have a missing part; empty if there are none.
    """

    source: str
    target: str
    keys: tuple[str, ...]
    needed: Mapping[str, str]
    remedies: Mapping[str, str]
    stated: Mapping[str, str]

    def check(self, allowed: Collection[str], words: FixWords = COMMAND) -> None:
        """Raises an error if a key is lost that a pipeline needs and that is not allowed.

        Args:
            allowed: keys that may be lost.
            words: how the fix is written: for a command line, or for Python.

        Raises:
            ConfigError: a needed key is lost, or `allowed` has an unknown name; the message has the fix.
        """
        for key in allowed:
            if key not in KEYS:
                raise unknown_name("key", key, KEYS)
        refused = {key: why for key, why in self.needed.items() if key not in allowed}
        if not refused:
            return
        reasons = "; ".join(f"{key} ({why})" for key, why in refused.items())
        fixes = [f"Allow it with {words.allow(tuple(refused))}"]
        if self.remedies:
            fixes.append(f"lose less with {words.target(self.remedies)}")
        if self.stated:
            fixes.append(
                f"if the records of {self.source} have the old rows, declare it with {words.source(self.stated)}"
            )
        raise ConfigError(
            f"{self.source} to {self.target} loses what a pipeline needs: {reasons}. {', or '.join(fixes)}"
        )


def loss(source: Protocol, source_options: Options, target: Protocol, target_options: Options) -> Loss:
    """Returns the keys that events of `source` lose in `target`."""
    lost = tuple(_lost(source, source_options, target, target_options))
    cut = source.capabilities.cut_key
    reasons = {**NEEDED, **({cut: _CUTS} if cut else {})}
    needed = {key: reasons[key] for key in lost if key in reasons}
    remedies: Mapping[str, str] = {}
    stated: Mapping[str, str] = {}
    if needed:
        remedies = _remedy(source, source_options, target, target_options, needed)
    if needed and source is not target:
        missing = {target.capabilities.requires[key] for key in needed if key in target.capabilities.requires}
        stated = _statement(source, source_options, missing)
    return Loss(source.name, target.name, lost, needed, remedies, stated)


def _lost(source: Protocol, source_options: Options, target: Protocol, target_options: Options) -> Iterator[str]:
    if source is target and source.verbatim:
        return
    sure = source.capabilities_of(source_options).carries
    may = _may_have(source, sure, itself=source is target)
    can = target.capabilities_of(target_options)
    for key in KEYS:
        rest = can.requires.get(key)
        kept = key in can.carries and (source is target or rest is None or rest in sure)
        if key in may and not kept:
            yield key


def _may_have(source: Protocol, sure: frozenset[str], *, itself: bool) -> frozenset[str]:
    """Returns the keys that events of the source may have; `itself`: they are written in the same protocol again."""
    most = source.capabilities.carries
    if not itself:
        return (most if source.self_describing else sure) | source.capabilities.provides
    if not source.self_describing:
        return sure
    return (sure - {"op.upsert"}) | {key for key in most if key == "resolved" or key.startswith("schema")}


def _remedy(
    source: Protocol, source_options: Options, target: Protocol, target_options: Options, needed: Collection[str]
) -> Mapping[str, str]:
    """Returns the target's variant of options that loses the fewest needed keys."""
    before = set(_lost(source, source_options, target, target_options))

    def left(options: Mapping[str, str]) -> int:
        lost = set(_lost(source, source_options, target, target.read_options(options)))
        return len(needed) if lost - before else len(lost & set(needed))

    best = min(target.variants, key=left, default={})
    return fewest(best, lambda options: left(options) <= left(best)) if best and left(best) < len(needed) else {}


def _statement(source: Protocol, source_options: Options, missing: Collection[str]) -> Mapping[str, str]:
    """Returns the options that declare that the source's records have the missing keys; empty if none do, or none are needed."""

    def has(options: Mapping[str, str]) -> bool:
        return set(missing) <= source.capabilities_of(source.read_options(options)).carries

    if not source.self_describing or set(missing) <= source.capabilities_of(source_options).carries:
        return {}
    return next((fewest(variant, has) for variant in source.variants if has(variant)), {})


def fewest(options: Mapping[str, str], fits: Callable[[Mapping[str, str]], bool]) -> Mapping[str, str]:
    """Removes options that are not needed: returns the fewest options that still `fit`."""
    for name in options:
        fewer = {other: value for other, value in options.items() if other != name}
        if fits(fewer):
            return fewest(fewer, fits)
    return options
