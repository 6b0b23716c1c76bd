"""`changefeed decode`: record logs to change events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click
import msgspec

from changefeed.api.logs import Events
from changefeed.cli.options import common, example, logs, protocol_options
from changefeed.cli.output import Output, many
from changefeed.model.text import describe, lines


@click.command(epilog=example("changefeed decode shop.jsonl.gz --protocol ticdc-open -o time-zone=Asia/Shanghai"))
@logs
@click.option("--protocol", required=True, help="Protocol of the records; `changefeed list` shows all.")
@protocol_options("-o", "options", "Option of the protocol, by the producer's name for it.")
@common
@click.pass_obj
def decode(output: Output, logs: tuple[Path, ...], protocol: str, options: Mapping[str, str]) -> int:
    """Print the change events of record logs, one per line.

    Exit code 3 if a record could not be decoded; all others are still printed.
    """
    events = Events(logs, protocol, options)
    shapes_seen: set[str] = set()
    for decoded in events.batches():
        text = lines(decoded, shapes_seen=shapes_seen)
        output.lines(text if output.json else _for_people(text))
    if events.dead_letters and not output.json:
        output.note(
            f"{many(events.dead_letters, 'dead letter')}: records or messages that could not be decoded; --json shows their bytes"
        )
    return 3 if events.dead_letters else 0


def _for_people(text: Iterable[str]) -> Iterator[str]:
    for line in text:
        event = msgspec.json.decode(line)
        if event["kind"] != "shape":
            yield describe(event)
