"""`changefeed bench`: decoding, encoding and applying speed on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from changefeed.cli.options import Commands, common, example
from changefeed.cli.output import Output, many

if TYPE_CHECKING:
    from changefeed.bench.apply import Applied

_ROWS = 50_000  # per protocol: the slowest reference decoder takes some seconds


@click.group(cls=Commands)
def bench() -> None:
    """Measure decoding, encoding and applying speed on this machine."""


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


@bench.command(epilog=example("changefeed bench apply", "changefeed bench apply --rows 1000000 --small-steps"))
@click.option(
    "--rows", default=100_000, show_default=True, type=click.IntRange(min=1), help="Number of row changes of each job."
)
@click.option("--tables", default=20, show_default=True, type=click.IntRange(min=1), help="Tables of the job `tables`.")
@click.option(
    "--write-mode",
    default="copy-on-write",
    show_default=True,
    type=click.Choice(["copy-on-write", "merge-on-read"]),
    help="How rows with a key are changed: sink.write-mode.",
)
@click.option("--small-steps", is_flag=True, help="Also apply 2,000 changes in steps of 200.")
@common
@click.pass_obj
def apply(output: Output, rows: int, tables: int, write_mode: str, *, small_steps: bool) -> None:
    """Run a pipeline over generated logs into Delta tables, and show its speed and where the time of its steps goes.

    The jobs: new rows of a new table; updates, inserts and deletes by key; new rows of many tables. Logs and tables lie in a
    temporary folder, which is deleted. After each job every row of its tables is compared with the log: a difference is an
    error. The times do not include the start of Spark.
    """
    from changefeed.bench.apply import Applied, measure
    from changefeed.pipeline.monitoring.phases import PHASES

    done = list[Applied]()
    with output.status("starting") as status:
        for one in measure(rows, tables, write_mode, small_steps=small_steps, status=status):
            done.append(one)
            if output.json:
                output.document(one.to_dict())
    if output.json:
        return
    titles = ("job", "tables", "steps", "rows", "rows/s", "seconds", "CPU s")
    output.table(titles, [_speed(one) for one in done])
    output.lines(["", "seconds of its parts:"])
    output.table(("job", *PHASES), [(one.job, *(f"{one.phases[name]:.2f}" for name in PHASES)) for one in done])
    output.lines(["", f"every row compared with the logs: {many(sum(one.compared for one in done), 'row')}, all right"])


def _speed(one: Applied) -> tuple[str, ...]:
    cpu = "-" if one.cpu_seconds is None else f"{one.cpu_seconds:.2f}"
    counts = (f"{one.tables:,}", f"{one.steps:,}", f"{one.rows:,}", f"{one.rows_per_second:,.0f}")
    return (one.job, *counts, f"{one.seconds:.2f}", cpu)
