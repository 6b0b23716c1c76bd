"""`changefeed bench`: decoding and encoding speed on this machine."""

from __future__ import annotations

import click

from changefeed.cli.options import Commands, common, example
from changefeed.cli.output import Output

_ROWS = 50_000  # per protocol: the slowest reference decoder takes some seconds


@click.group(cls=Commands)
def bench() -> None:
    """Measure decoding and encoding speed on this machine."""


@bench.command(epilog=example("changefeed bench decode --records 100000", "changefeed bench decode --all"))
@click.option(
    "--records", default=500_000, show_default=True, type=click.IntRange(min=1), help="Number of records to decode."
)
@click.option("--all", "every", is_flag=True, help="Every protocol in turn; 50,000 rows each unless --records is set.")
@click.option("--spark/--no-spark", default=True, show_default=True, help="Measure on Spark too.")
@common
@click.pass_context
def decode(context: click.Context, records: int, every: bool, spark: bool) -> None:
    """Decode the same changes in several ways and show the speed of each.

    Measures Open Protocol; with --all every protocol: its Python decoder, its kernel if there is one, and what one would use
    instead: json.loads, fastavro, Python's protobuf; on Spark from_json and from_avro.
    """
    output = context.ensure_object(Output)
    if every:
        from changefeed.bench.every import run as run_every

        count_is_set = context.get_parameter_source("records") is not click.core.ParameterSource.DEFAULT
        for line in run_every(records if count_is_set else _ROWS, spark=spark, json=output.json):
            output.lines([line])
        return
    from changefeed.bench.decode import run

    output.lines(run(records, spark=spark, json=output.json))


@bench.command(epilog=example("changefeed bench encode --records 100000"))
@click.option(
    "--records", default=_ROWS, show_default=True, type=click.IntRange(min=1), help="Number of rows to encode."
)
@common
@click.pass_obj
def encode(output: Output, records: int) -> None:
    """Encode the same changes in each protocol that the kernel can write, on one core: in Python, and with the kernel.

    The changes are rows of an orders table. Both ways write the same bytes; the last column is the speed-up by the kernel.
    """
    from changefeed.bench.encode import run

    output.lines(run(records, json=output.json))
