"""`changefeed detect`: the protocol of the records in a log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from changefeed.api.detection import detect_logs
from changefeed.cli.options import common, example, logs, protocol_options
from changefeed.cli.output import Output
from changefeed.pipeline.operations.detect import DetectedTopic, ProtocolFit

_POSITION = re.compile(r" \([^()]*:\d+:\d+\)$")


@click.command(
    epilog=example("changefeed detect shop.jsonl.gz", "changefeed detect avro.parquet -o schema-registry=schemas.json")
)
@logs
@protocol_options("-o", "options", "Option to decode with, such as schema-registry; for the protocols that have it.")
@click.option(
    "--records",
    default=20_000,
    show_default=True,
    type=click.IntRange(min=1),
    help="Number of records to read from each log.",
)
@common
@click.pass_obj
def detect(output: Output, logs: tuple[Path, ...], options: Mapping[str, str], records: int) -> int:
    """Show the protocol of each topic's records, the evidence for it, and the line for a pipeline.

    Reads up to 200 records of each topic and tries to decode them. Exit code 3 if a topic fits no protocol.
    """
    topics = detect_logs(logs, options, records)
    if output.json:
        output.document({"topics": [topic.to_dict() for topic in topics]})
    else:
        output.lines(line for topic in _grouped(topics) for line in _lines(topic))
        if not topics:
            output.note(f"no record in {', '.join(map(str, logs))}")
    return 0 if topics and all(topic.best for topic in topics) else 3


def _grouped(topics: list[DetectedTopic]) -> list[DetectedTopic]:
    """Topics with equal results merged into one, with the sum of their records."""
    groups: dict[Any, list[DetectedTopic]] = {}
    for topic in topics:
        answer = tuple(
            (
                f.protocol,
                f.why,
                _share(f, topic.sample),
                _POSITION.sub("", f.trouble or ""),
                tuple(f.options.items()) if f is topic.best else (),
            )
            for f in topic.fits
        )
        groups.setdefault((answer, topic.stranger), []).append(topic)
    return [_sum(group) for group in groups.values()]


def _share(fit: ProtocolFit, sample: int) -> str:
    return (
        "not tried"
        if fit.decoded is None
        else "none"
        if not fit.decoded
        else "all"
        if fit.decoded == sample
        else "some"
    )


def _sum(group: list[DetectedTopic]) -> DetectedTopic:
    fits = [
        replace(
            fits[0],
            recognized=sum(fit.recognized for fit in fits),
            decoded=None if fits[0].decoded is None else sum(fit.decoded or 0 for fit in fits),
        )
        for fits in zip(*(topic.fits for topic in group), strict=True)
    ]
    name = ", ".join(topic.name for topic in group)
    return DetectedTopic(name, sum(topic.sample for topic in group), fits, group[0].stranger)


def _lines(topic: DetectedTopic) -> Iterator[str]:
    best = topic.best
    if best is None:
        what = f"it looks like {topic.stranger}" if topic.stranger else "no known format"
        yield f"{topic.name}: not a protocol that changefeed supports" + ("" if topic.fits else f"; {what}")
    else:
        yield f"{topic.name}: {best.protocol}"
        yield f"  why      {best.why} ({best.recognized:,} of {topic.sample:,} records)"
        yield f"  decodes  {_decodes(best, topic.sample)}"
        yield from (f"  options  {name}={value}" for name, value in best.shown.items())
        yield f"  source   {best.line}"
    for fit in topic.fits:
        if fit is not best:
            title = "not" if fit.decoded == 0 else "or "
            yield f"  {title}      {fit.protocol}: {fit.why}; decodes {_decodes(fit, topic.sample)}"


def _decodes(fit: ProtocolFit, sample: int) -> str:
    counted = "not tried" if fit.decoded is None else f"{fit.decoded:,} of {sample:,} records"
    return counted if fit.trouble is None else f"{counted}: {fit.trouble}"
