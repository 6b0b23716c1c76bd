"""`changefeed list`: what is there."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from changefeed.cli.options import common, example
from changefeed.cli.output import Output
from changefeed.model.keys import KEYS
from changefeed.protocols import PROTOCOLS, protocol
from changefeed.sinks import SINKS
from changefeed.sources import SOURCES

LOSSES = "docs/reference/loss.md"


@click.command("list", epilog=example("changefeed list --json"))
@common
@click.pass_obj
def list_(output: Output) -> None:
    """Show the protocols, sources and sinks there are.

    What each protocol carries, and what is lost between two of them: docs/reference/loss.md.
    """
    found = {
        "protocols": [_protocol(name) for name in sorted(PROTOCOLS)],
        "sources": [{"name": name, "title": _title(SOURCES[name])} for name in sorted(SOURCES)],
        "sinks": [{"name": name, "title": _title(SINKS[name])} for name in sorted(SINKS)],
    }
    if output.json:
        output.document(found)
        return
    rows = [(kind.removesuffix("s"), one["name"], one["title"]) for kind, several in found.items() for one in several]
    output.table(("kind", "name", "what it is"), rows)
    output.note(f"what is lost from one protocol to another: {LOSSES}")


def _protocol(name: str) -> dict[str, Any]:
    known = protocol(name)
    can = known.capabilities
    events = {name: getattr(can, name) for name in ("schema_changes", "resolved", "transactions", "heartbeats")}
    said = {"name": name, "title": known.title, "ops": sorted(can.ops), **events, "cuts": can.cuts}
    return {**said, "carries": [key for key in KEYS if key in can.carries], "losses": LOSSES}


def _title(module: str) -> str:
    """The first sentence of the module's docstring; it is not imported, for that may need an extra."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ")
