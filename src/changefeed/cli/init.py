"""`changefeed init`: a pipeline to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from changefeed.cli.options import common
from changefeed.cli.output import Output

TEMPLATE = """\
# What to read. `changefeed list` shows the sources, sinks and protocols there are.
source:
  type: files
  path: "history/*.jsonl.gz"     # record logs; the folder may grow while the pipeline runs
  protocol: ticdc-open
  # max-records-per-batch: 1000  # how much one step applies at most
  #
  # From Kafka instead:
  # type: kafka
  # servers: "127.0.0.1:9092"
  # topics: [shop]

# Where to write: a table lies at <path>/<database>/<table>, the pipeline's own tables at <path>/_changefeed.
sink:
  type: delta
  path: out/lake
  # irregular: "null"            # zero dates and the like: "null", fail, or keep (as text in _irregular)

pipeline:
  name: shop
  # transaction: all tables together, up to the smallest resolved mark, so that every cut is a state the upstream had.
  # key: each batch at once, in order for each key.
  consistency: transaction
  # dead-letters: stop           # a record that cannot be decoded: stop, quarantine its table, or continue
  # schema.change.behavior: evolve
"""


@click.command()
@click.argument("path", default="pipeline.yaml", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@common
@click.pass_obj
def init(output: Output, path: Path, force: bool) -> None:
    """Write a commented pipeline.yaml to begin with."""
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except FileExistsError as error:
        raise click.UsageError(f"{path} exists; --force replaces it") from error
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}") from error
    output.done(wrote=str(path))
