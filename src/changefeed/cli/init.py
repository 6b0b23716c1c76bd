"""`changefeed init`: a pipeline to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from changefeed.cli.options import common, example
from changefeed.cli.output import Output

TEMPLATE = """\
# What to read. `changefeed list` shows the sources, sinks and protocols there are.
source:
  type: files
  path: "history/*.jsonl.gz"       # record logs; the folder may grow while the pipeline runs
  protocol: ticdc-open             # with options: {name: ticdc-open, time-zone: Asia/Shanghai}
  # max-records-per-batch: 50000   # how much one step reads at most
  #
  # From Kafka: these instead of type and path.
  # type: kafka
  # servers: "127.0.0.1:9092"
  # topics: [shop]                 # or topics-pattern: "shop_.*"
  # starting-offsets: earliest
  # removed-topics: stop           # when a topic is deleted or created again: stop, or continue without it

# Where to write: a table lies at <path>/<database>/<table>, the pipeline's own tables at <path>/_changefeed.
sink:
  type: delta
  path: out/lake
  # writer: native                 # rows of all tables together, where path is a local folder; or spark: SQL for each
  # irregular: "null"              # zero dates and the like: "null", fail, or keep (as text in _irregular)
  # metadata-columns: [_commit_ts] # columns to add: _commit_ts, _commit_time, _op, _position
  # adopt: [shop.orders]           # tables that lie there already and keep their rows

pipeline:
  name: shop
  # transaction: all tables together, up to the smallest resolved mark, so that every cut is a state the upstream had.
  # key: each batch at once, in order for each key.
  consistency: transaction
  # dead-letters: stop             # a record that cannot be decoded: stop, quarantine its table, or continue
  # keyless: append                # tables without a handle key: append, inserts, or refuse
  # exclude: [shop.audit]          # tables to pass over
  # schema.change.behavior: evolve # or try_evolve, lenient, ignore, exception: `changefeed explain` says what they do
  # parallelism: 4                 # how many tables are written at the same time
  # trigger-interval: 1 second     # how often to look for new records when following
  # max-retries: 5                 # how often to try again, from the ledger, after an error that may pass
  # retry-backoff: 1 second        # before the first try again; it doubles up to a minute
  # keep-cuts: all                 # how many cuts the ledger keeps: all, a number, or those of a time, as `30 days`

# Spark configuration, passed on as it is.
# spark: {spark.driver.memory: 4g}
"""


@click.command(epilog=example("changefeed init pipeline.yaml"))
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
