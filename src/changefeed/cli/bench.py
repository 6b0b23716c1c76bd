"""`changefeed bench`: measurements on this machine."""

from __future__ import annotations

import click

from changefeed.cli.options import common, example
from changefeed.cli.output import Output


@click.group()
def bench() -> None:
    """Measure on this machine."""


@bench.command(epilog=example("changefeed bench decode --records 100000"))
@click.option("--records", default=500_000, show_default=True, type=click.IntRange(min=1), help="How many to decode.")
@common
@click.pass_obj
def decode(output: Output, records: int) -> None:
    """Decode the same records in several ways and show how fast each is."""
    from changefeed.bench.decode import run

    output.lines(run(records, json=output.json))
