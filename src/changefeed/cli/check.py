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
    from changefeed.pipeline.operations.check import FAIL
    from changefeed.pipeline.operations.check import check as checked

    failed = False
    checks = []
    for one in checked(path):
        failed |= one.status == FAIL
        checks.append(one)
        if not output.json:
            output.lines(
                [f"{one.status:<5} {one.name:<11} {one.message}", *([f"      → {one.fix}"] if one.fix else [])]
            )
            output.flush()
    if output.json:
        documents = [{"name": c.name, "status": c.status, "message": c.message, "fix": c.fix} for c in checks]
        output.document({"ok": not failed, "checks": documents})
    return 2 if failed else 0
