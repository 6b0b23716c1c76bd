"""`changefeed transcode`: translates records of one protocol to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import click
import msgspec

from changefeed import record_log
from changefeed.api.dispatchers import with_rules
from changefeed.api.translation import Translation
from changefeed.cli.options import common, example, keys, logs, out, protocol_options
from changefeed.cli.output import Output
from changefeed.model.text import describe, event_line
from changefeed.protocols.loss import Loss


@click.command(
    epilog=example(
        "changefeed transcode a.jsonl --from ticdc-open --to ticdc-open -O profile=newarch --out b.jsonl",
        "changefeed transcode a.jsonl --from ticdc-open --to tencent-dts --allow-loss resolved --out b.jsonl",
        "changefeed transcode logs --from ticdc-open --to tencent-dts --allow-loss resolved --spark --out dts",
    )
)
@logs
@click.option("--from", "source", required=True, help="Protocol to read.")
@protocol_options("-o", "options", "Option of the protocol to read.")
@click.option("--to", "target", required=True, help="Protocol to write.")
@protocol_options("-O", "target_options", "Option of the protocol to write.")
@keys(
    "--allow-loss",
    "allowed",
    "Information to lose although a pipeline needs it, such as `resolved`; the error names it.",
)
@click.option(
    "--spark", is_flag=True, help="Run on Spark, one task per partition; --out is a new folder of Parquet files."
)
@out
@common
@click.pass_obj
def transcode(
    output: Output,
    logs: tuple[Path, ...],
    source: str,
    options: Mapping[str, str],
    target: str,
    target_options: Mapping[str, str],
    allowed: tuple[str, ...],
    spark: bool,
    out: Path,
) -> int:
    """Decode records of one protocol and encode their changes in another.

    Losses are listed on stderr. A loss that a pipeline needs is refused with exit code 2, unless --allow-loss names it. Exit
    code 3 if a record could not be decoded; such records are shown on stderr and left out.
    """
    way = Translation(source, options, target, target_options)
    _say(output, way.loss)
    way.loss.check(allowed)
    if spark:
        return _on_spark(output, logs, (source, with_rules(options)), (target, with_rules(target_options)), out)
    with output.progress("transcode") as progress:
        done = way.run(logs, out, lambda letter: _show(output, [event_line(letter)]), progress.advance)
    output.done(wrote=str(out), records=done.records, dead_letters=done.dead_letters)
    return 3 if done.dead_letters else 0


def _say(output: Output, losses: Loss) -> None:
    """Prints what is lost, for a person or as JSON."""
    if output.json:
        document = {"from": losses.source, "to": losses.target, "lost": losses.keys, "needed": list(losses.needed)}
        output.note(msgspec.json.encode({"loss": document}).decode())
    elif losses.keys:
        output.note(f"{losses.source} to {losses.target} loses {', '.join(losses.keys)}")


def _show(output: Output, letters: Iterable[str]) -> None:
    for line in letters:
        output.note(line if output.json else describe(msgspec.json.decode(line)))


def _on_spark(
    output: Output,
    logs: tuple[Path, ...],
    source: tuple[str, Mapping[str, str]],
    target: tuple[str, Mapping[str, str]],
    out: Path,
) -> int:
    from changefeed.pipeline.operations.transcode import require_new
    from changefeed.pipeline.operations.transcode import transcode as on_spark
    from changefeed.spark_runtime.opened import spark_named
    from changefeed.stages.transcode import Language

    require_new(out)
    with output.status("starting Spark") as say, spark_named("changefeed transcode", {}) as spark:
        say("transcode")
        dead, letters = on_spark(spark, logs, Language(*source), Language(*target), out)
    _show(output, letters)
    output.done(wrote=str(out), records=record_log.count(out), dead_letters=dead)
    return 3 if dead else 0
