"""`changefeed encode`: change events to a record log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from changefeed.api.codecs import Encoder
from changefeed.api.logs import write_batches
from changefeed.cli.options import common, example, out, protocol_options
from changefeed.cli.output import Output
from changefeed.model.text import parse
from changefeed.record_log import default_topic
from changefeed.record_log.stream import lines


@click.command(epilog=example("changefeed encode events.jsonl --protocol ticdc-open --out shop.jsonl.gz"))
@click.argument("events", metavar="EVENTS.jsonl", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--protocol", required=True, help="Protocol to encode to; `changefeed list` shows all.")
@protocol_options("-o", "options", "Option of the protocol, by the producer's name for it.")
@out
@common
@click.pass_obj
def encode(output: Output, events: Path, protocol: str, options: Mapping[str, str], out: Path) -> int:
    """Encode the events of a file, as `changefeed decode --json` prints them, into a record log.

    Exit code 3 if there are dead letters among them, which are left out.
    """
    encoder = Encoder(protocol, options)
    batches = parse(lines(events), name=str(events), topic=default_topic(events))
    with output.progress(f"encode {events.name}") as progress:
        written = write_batches(batches, out, encoder, progress.advance)
    output.done(wrote=str(out), records=written.records, dead_letters=written.dead_letters)
    return 3 if written.dead_letters else 0
