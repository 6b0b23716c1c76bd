"""`changefeed explain`: the plan of a pipeline, without running it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from changefeed.cli.options import common, example, pipeline
from changefeed.cli.output import Output, many

if TYPE_CHECKING:
    from changefeed.pipeline.events.explain import EventExplanation
    from changefeed.pipeline.operations.explain import ExplainedTable


@click.command(epilog=example("changefeed explain pipeline.yaml", "changefeed explain pipeline.yaml --records 100000"))
@pipeline
@click.option(
    "--records", default=10_000, show_default=True, type=click.IntRange(min=1), help="Number of records to read."
)
@common
@click.pass_obj
def explain(output: Output, path: Path, records: int) -> None:
    """Show what a run would do: tables with keys and types, what is not kept, policies.

    Takes the first records of the source through the steps of a run, and changes nothing. What would stop the run stops the
    command, with the same message and exit code. If the definition names a catalog, Spark is started to look into it.
    """
    from changefeed.api.events import EventPipeline, load_pipeline

    pipeline = load_pipeline(path)
    if isinstance(pipeline, EventPipeline):
        _events(output, pipeline.explain())
        return
    plan = pipeline.explain(records)
    if output.json:
        output.document(plan.to_dict())
        return
    for table in plan.tables:
        _table(output, table)
    policies = [(name.replace("_", " "), getattr(plan, name)) for name in ("barrier", "schema_changes", "guarantee")]
    looked = f"{many(plan.records, 'record')}: {many(plan.rows, 'row')}, {many(plan.dead_letters, 'dead letter')}"
    lag = [("lag", plan.lag)] if plan.lag else []
    output.table(("policy", "meaning"), [*policies, ("read", looked), *lag])
    output.lines(["", *(f"note: {note}" for note in plan.notes)] if plan.notes else [])


def _events(output: Output, plan: EventExplanation) -> None:
    """Shows the plan of an event pipeline."""
    if output.json:
        output.document(plan.to_dict())
        return
    rows = [(one.table, ", ".join(one.keys) or "none", f"{len(one.columns):,}") for one in plan.tables]
    output.table(("table", "key", "columns"), rows)
    output.lines(["", f"→ {plan.sink}, as {plan.protocol}", ""])
    policies = [(name, getattr(plan, name)) for name in ("begins", "guarantee", "lag")]
    output.table(("policy", "meaning"), policies)
    output.lines(["", *(f"note: {note}" for note in plan.notes)] if plan.notes else [])


def _table(output: Output, table: ExplainedTable) -> None:
    keys = f"key {', '.join(table.keys)}" if table.keys else "no key"
    output.lines([f"{table.table}  {keys}, {table.apply}, types from {table.types_from}", f"→ {table.path}"])
    if table.name is not None:
        output.lines([f"→ {table.name}"])
    if table.partitions:
        output.lines([f"partitions: {', '.join(table.partitions)}"])
    if table.sort_order:
        output.lines([f"sorted by: {', '.join(table.sort_order)}"])
    columns = [(c.name, c.upstream, c.sink, c.lossy or "") for c in table.columns]
    output.table(("  column", "upstream", "sink", "not kept"), [(f"  {name}", *rest) for name, *rest in columns])
    output.lines([""])
