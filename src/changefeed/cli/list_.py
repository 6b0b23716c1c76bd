"""`changefeed list`: the available protocols, sources and sinks."""

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

_CUTS = {
    "marks": "cuts at resolved marks or checkpoints",
    "transactions": "cuts behind whole transactions",
    "nothing": "no cuts: only consistency `key`",
}


@click.command("list", epilog=example("changefeed list --json"))
@common
@click.pass_obj
def list_(output: Output) -> None:
    """List the available protocols, sources and sinks.

    For each protocol: how cuts are found in it. --json adds the information that each protocol carries;
    `changefeed transcode` shows what is lost between two of them.
    """
    listing = {
        "protocols": [_protocol(name) for name in sorted(PROTOCOLS)],
        "sources": [{"name": name, "title": _title(SOURCES[name])} for name in sorted(SOURCES)],
        "sinks": [{"name": name, "title": _title(SINKS[name])} for name in sorted(SINKS)],
    }
    if output.json:
        output.document(listing)
        return
    rows = [
        (kind.removesuffix("s"), one["name"], one["title"], _CUTS.get(str(one.get("cuts")), ""))
        for kind, several in listing.items()
        for one in several
    ]
    output.table(("kind", "name", "description", "consistency"), rows)


def _protocol(name: str) -> dict[str, Any]:
    known = protocol(name)
    can = known.capabilities
    events = {name: getattr(can, name) for name in ("schema_changes", "resolved", "transactions", "heartbeats")}
    document = {"name": name, "title": known.title, "ops": sorted(can.ops), **events, "cuts": can.cuts}
    return {**document, "carries": [key for key in KEYS if key in can.carries]}


def _title(module: str) -> str:
    """The first sentence of the module's docstring. The module is not imported: that may need an optional package."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ")
