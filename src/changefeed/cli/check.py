"""`changefeed check`: whether a pipeline can run on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from changefeed.cli.options import common, example, pipeline
from changefeed.cli.output import Output


@click.command(epilog=example("changefeed check pipeline.yaml"))
@pipeline
@common
@click.pass_obj
def check(output: Output, path: Path) -> int:
    """Check that a pipeline can run: definition, Java, jars, source, first records, sink, ledger.

    Nothing is left behind. Exit code 2 if a check fails; each failed check shows what to do.
    """
    from changefeed.pipeline.operations.check import CheckReport
    from changefeed.pipeline.operations.check import check as checks

    results = []
    for one in checks(path):
        results.append(one)
        if not output.json:
            output.lines(one.lines())
            output.flush()
    report = CheckReport(tuple(results))
    if output.json:
        output.document(report.to_dict())
    return 0 if report.ok else 2
