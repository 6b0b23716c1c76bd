"""`changefeed transcode`: records of one protocol to records of another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from changefeed import record_log
from changefeed.cli import codec
from changefeed.cli.options import common, example, logs, out, protocol_options
from changefeed.cli.output import Output
from changefeed.model.batch import Decoded
from changefeed.model.text import describe, lines


@click.command(
    epilog=example("changefeed transcode a.jsonl --from ticdc-open --to ticdc-open -O profile=newarch --out b.jsonl")
)
@logs
@click.option("--from", "source", required=True, help="The protocol of the records.")
@protocol_options("-o", "options", "Option of the protocol that is read.")
@click.option("--to", "target", required=True, help="The protocol to write.")
@protocol_options("-O", "target_options", "Option of the protocol that is written.")
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
    out: Path,
) -> int:
    """Read records in one protocol and write what they mean in another.

    Exit code 3 when a record could not be decoded; such records are shown on stderr and left out.
    """
    decoder, encoder = codec.decoder(source, options), codec.encoder(target, target_options)
    dead = 0
    with record_log.Writer(out) as log, output.progress("transcode") as progress:
        for decoded, records in codec.decode(logs, decoder, source):
            for line in lines(Decoded(dead=decoded.dead)):
                output.note(line if output.json else describe(msgspec.json.decode(line)))
            dead += len(decoded.dead)
            log.write(encoder.encode(decoded))
            progress.advance(records)
        for last in codec.finish(encoder):
            log.write(last)
    output.done(wrote=str(out), records=log.records, dead_letters=dead)
    return 3 if dead else 0
