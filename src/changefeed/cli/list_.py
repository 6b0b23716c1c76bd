"""`changefeed list`: the available protocols, sources and sinks."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import click

from changefeed.api.catalog import list_protocols
from changefeed.cli.options import common, example
from changefeed.cli.output import Output
from changefeed.sinks import EVENT_SINKS, SINKS
from changefeed.sources import SOURCES

_CUTS = {
    "marks": "cuts at resolved events or checkpoints",
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
        "protocols": [known.to_dict() for known in list_protocols()],
        "sources": [{"name": name, "title": _title(SOURCES[name])} for name in sorted(SOURCES)],
        "sinks": [{"name": name, "title": _title(SINKS[name])} for name in sorted(SINKS)],
        "event sinks": [{"name": name, "title": _title(EVENT_SINKS[name])} for name in sorted(EVENT_SINKS)],
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


def _title(module: str) -> str:
    """The first sentence of the module's docstring. The module is not imported: that may need an optional package."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ")
