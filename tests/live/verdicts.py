"""The verdict on a history: the worst of all ways, and the statement that is its cause.

LOST     the protocol cannot hold a value of the history
RIGHT    all ways come to the server's tables
DRIFT    the rows are right, a type is not
KEPT     as WRONG, but a table keeps its rows with a note, because the producer has not sent what became of it
STOP     the pipeline refuses something, with a reason
WRONG    a table differs from the server's
CRASH    an exception that is not for users
ENGINE   as one of these, but the engine has spoiled the history
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.live import engine
from tests.live.history import History
from tests.live.judging import WAYS, judge
from tests.pipeline.kit.faithful import Compute

FINAL = ("LOST", "RIGHT", "DRIFT", "KEPT")  # nothing follows from these
_WORST = (*FINAL, "STOP", "WRONG", "CRASH")
_STATEMENT = re.compile(r"""(?:^|\(STOP: )('.*?'|".*?") at \S+:\d+:\d+: """, re.DOTALL)


@dataclass(slots=True)
class Verdict:
    """See the head of this file.

    Attributes:
        history: its name.
        way: the first way with this verdict.
        ways: way -> its own verdict.
        text: reason or differences.
        cause: index of the statement among those executed; None if it is not known.
        parent: the history of which this one is a part; empty for a whole one.
    """

    history: str
    verdict: str
    way: str
    ways: dict[str, str]
    text: str
    cause: int | None = None
    parent: str = ""

    @property
    def kind(self) -> str:
        """The reason without names and values: the same for verdicts of one kind."""
        if self.verdict == "CRASH":
            return self.text.strip().splitlines()[-1][:160]
        if self.verdict == "WRONG":
            differing = re.findall(r": (tables|columns|types|rows)\b|\b(pending)\b", self.text)
            return " ".join(sorted({what or pending for what, pending in differing}))
        reason = _STATEMENT.sub("", self.text)
        return re.sub(r"(column|table|key) \S+", r"\1 …", reason)[:160]

    def to_dict(self) -> dict[str, Any]:
        """The fields, for a line of the results."""
        return asdict(self)


def verdict(history: History, compute: Compute | None, ways: Sequence[str] = WAYS, parent: str = "") -> Verdict:
    """Judges a history in several ways; one of which the engine has died is not judged."""
    if history.died is not None:
        return Verdict(history.name, "ENGINE", "", {}, f"died: {history.died}"[:3000], None, parent)
    outcomes = {way: judge(history, way, compute) for way in ways}
    way = max(outcomes, key=lambda w: _WORST.index(outcomes[w].verdict))
    worst = outcomes[way]
    its_verdict, text = worst.verdict, worst.text
    spoiled = "" if its_verdict in ("LOST", "RIGHT") or history.log else engine.spoiled(history, worst.different, text)
    if spoiled:
        its_verdict, text = "ENGINE", f"{spoiled} ({its_verdict}: {text})"
    cause = None if its_verdict in FINAL else _cause(history, text)
    return Verdict(
        history.name, its_verdict, way, {w: o.verdict for w, o in outcomes.items()}, text[:3000], cause, parent
    )


def _cause(history: History, text: str) -> int | None:
    """The statement that a reason quotes, or the longest one that it contains."""
    executed = [statement.text for statement in history.executed]
    match = _STATEMENT.search(text)
    try:
        quoted = _spaced(ast.literal_eval(match[1])) if match else ""
    except (SyntaxError, ValueError):  # other text between quotes
        quoted = ""
    for number, statement in reversed(list(enumerate(executed))):
        plain = _spaced(statement)
        if quoted and (plain == quoted or plain.endswith(quoted)):
            return number
    inside = [(len(s), number) for number, s in enumerate(executed) if len(s) > 12 and s in text]
    return max(inside)[1] if inside else None


def _spaced(text: str) -> str:
    return " ".join(text.split())
