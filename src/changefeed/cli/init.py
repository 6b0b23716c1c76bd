"""`changefeed init`: writes a pipeline definition to start from."""

from __future__ import annotations

from pathlib import Path

import click

from changefeed.cli.options import common, example
from changefeed.cli.output import Output

TEMPLATE = """\
# The source. `changefeed list` shows all sources, sinks and protocols.
source:
  type: files
  path: "history/*.jsonl.gz"       # record logs; the folder may grow while the pipeline runs
  protocol: ticdc-open             # with options: {name: ticdc-open, time-zone: Asia/Shanghai}
  # max-records-per-batch: 200000  # at most this many records per step
  #
  # From Kafka: these instead of type and path.
  # type: kafka
  # servers: "127.0.0.1:9092"
  # topics: [shop]                 # or topics-pattern: "shop_.*"
  # starting-offsets: earliest
  # removed-topics: stop           # when a topic is deleted or created again: stop, or continue without it
  #
  # From MySQL or MariaDB itself: these instead of type, path and protocol.
  # type: mysql
  # host: 127.0.0.1
  # port: 3306
  # user: changefeed
  # password: secret               # or ${MYSQL_PASSWORD} from the environment, or password-file: /run/secrets/mysql
  # tables: ["shop.*"]             # patterns of database.table
  # exclude-columns: ["*.*.ssn"]   # patterns of database.table.column that are not read
  # mask-columns: {"*.*.email": hash SHA-256}  # or asterisks 8, truncate 4, keep
  # mask-salt: pepper              # of hashes, better ${MASK_SALT} from the environment
  # snapshot.mode: initial         # or initial_only, when_needed, always, recovery, no_data (events: also from-debezium: FILE)
  # signal-table: ops.signals      # a table whose new rows copy tables again (for events, also notification-topic: notes)
  # server-id: 4200                # the first of 100 ids that no replica has; left out: at random
  # ssl-mode: preferred            # TLS, with the files ssl-ca: …, ssl-cert: …, ssl-key: …
  # chunk-rows: 50000              # rows that the first copy reads with one query
  # max-bytes-per-batch: 67108864  # at most this much of the log per step; it begins at starting-position: … with no_data
  # The mode configuration_based has snapshot.mode.configuration.based.snapshot.data: true, to copy the tables first,
  # then snapshot.mode.configuration.based.start.stream: true, to follow the log,
  # and snapshot.mode.configuration.based.snapshot.on.data.error: true, to copy the tables again when the log is lost.
  # Signals from Kafka: signal-topic: ops, signal-servers: host:port, signal-key: shop, signal-properties: {}

# The sink. Tables are written to <path>/<database>/<table>, the pipeline's own files to <path>/_changefeed.
sink:
  type: delta
  path: out/lake
  # writer: native                 # all tables in one Spark job, on disks and in object stores; or spark: SQL per table
  # write-mode: copy-on-write      # updates and deletes: write files again, or merge-on-read: mark rows as deleted
  # compaction: auto               # with merge-on-read: write files with many deleted rows again, or off
  # catalog: spark_catalog         # names for queries in SQL, in the catalog of the Spark session
  # catalog-names: "{database}.{table}"  # the names there
  # irregular: "null"              # zero dates and the like: "null", fail, or keep (as text in _irregular)
  # metadata-columns: [_commit_ts] # columns to add: _commit_ts, _commit_time, _op, _position
  # column-names: escaped          # unit price becomes unit~20price; as-is (default) refuses such names
  # adopt: [shop.orders]           # existing tables to continue, with their rows
  #
  # Iceberg tables: these instead of type.
  # type: iceberg
  # catalog: lake                  # left out, with its properties: a database in SQLite beside the tables
  # catalog-properties: {type: rest, uri: "https://catalog.example"}  # by the names of PyIceberg
  # namespace: "lake_{database}"   # where the tables have their names
  # partition-by: {shop.orders: [days(created), "bucket(16, id)"]}  # of tables that the pipeline makes
  # sort-by: {shop.orders: [created, id desc]}  # order of the rows in their data files
  # format-version: 2              # of them; or 3, with deletion vectors and row ids
  # cut-tags: 100                  # so many of the newest cuts are tags of every table, for readers

pipeline:
  name: shop
  # folder: out/shop               # ledger, pending changes and dead letters; left out: <sink path>/_changefeed
  # transaction: all tables move together, up to the smallest resolved event; every cut is a state the upstream had.
  # key: each batch at once, in order for each key.
  consistency: transaction
  # dead-letters: stop             # a record that cannot be decoded: stop, quarantine its table, or continue
  # keyless: append                # tables without a handle key: append, inserts, or refuse
  # include: [shop.*]              # tables to apply; the others are skipped
  # exclude: [shop.audit]          # tables to skip
  # schema.change.behavior: evolve # or try_evolve, lenient, ignore, exception: `changefeed explain` describes them
  # session-time-zone: UTC         # of the sessions that execute DDL upstream; values of TIMESTAMP columns may depend on it
  # incomplete-transactions: wait  # when a filter removed some of a transaction's events: wait, or apply the others
  # parallelism: 4                 # number of tables written at the same time
  # trigger-interval: 1 second     # interval between reads of new records
  # max-retries: 5                 # retries after a transient error, each from the ledger
  # retry-backoff: 1 second        # wait before the first retry; it doubles up to a minute
  # keep-cuts: all                 # cuts that the ledger keeps: all, a number, or a period such as `30 days`
  # metrics: "127.0.0.1:9464"      # where Prometheus finds the metrics of a run
  # metrics-otlp: "http://127.0.0.1:4318" # an OpenTelemetry collector to which they are sent
  # metrics-by-table: false        # also for each topic, partition and table

# Spark configuration, passed to Spark unchanged.
# spark: {spark.driver.memory: 4g}
"""


@click.command(epilog=example("changefeed init pipeline.yaml"))
@click.argument("path", default="pipeline.yaml", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace an existing file.")
@common
@click.pass_obj
def init(output: Output, path: Path, force: bool) -> None:
    """Write a commented pipeline.yaml to start from."""
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except FileExistsError as error:
        raise click.UsageError(f"{path} exists; --force replaces it") from error
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}") from error
    output.done(wrote=str(path))
