"""The result of one check, and of all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check of a pipeline.

    Attributes:
        name: what was checked: `definition`, `java`, `jars`, `pyspark`, `properties`, `source`, `records`, `tables`, `sink`,
            `ledger`, `lag`, `cut`, `folders` or `catalog`.
        status: `ok`; `warn`, if a run may still succeed; or `fail`.
        message: what was found.
        fix: what to do about it; None if nothing has to be done.
    """

    name: str
    status: str
    message: str
    fix: str | None = None

    def lines(self) -> list[str]:
        """Formats the result as lines of text for people."""
        return [f"{self.status:<5} {self.name:<11} {self.message}", *([f"      → {self.fix}"] if self.fix else [])]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The results of all checks of a pipeline; `print` shows them as `changefeed check` does.

    Attributes:
        checks: one result for each check, in the order in which they were made.
    """

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(check.status != FAIL for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON document of `changefeed check --json`."""
        return {"ok": self.ok, "checks": [asdict(check) for check in self.checks]}

    def __str__(self) -> str:
        return "\n".join(line for check in self.checks for line in check.lines())
