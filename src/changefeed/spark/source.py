"""The data source `changefeed`: `spark.read`, `spark.readStream`, `df.write` and `df.writeStream`, over record logs and Kafka.

    records are in   read           written by
    record logs      log_reader     log_writer
    Kafka            kafka_reader   kafka_writer

A table's columns are found by a scan of the first records when the DataFrame is created (`known.py`). Spark 4.1 does not limit
the batches of sources written in Python, so a batch of a stream contains everything new; its tasks stream it.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource

from changefeed.errors import ConfigError
from changefeed.model.batch import RECORDS
from changefeed.spark.arrow_streams import check_arrow_streams
from changefeed.spark.kafka_reader import KafkaInput, KafkaReader, KafkaStreamReader, kafka_input
from changefeed.spark.kafka_writer import KafkaStreamWriter, KafkaWriter, Topics, topics
from changefeed.spark.known import Known, Look, split_name
from changefeed.spark.log_reader import LogReader, Logs, LogStreamReader
from changefeed.spark.log_writer import LogFolder, LogStreamWriter, LogWriter
from changefeed.spark.options import ReadOptions, local_path, read_options, write_options
from changefeed.spark.reading import ReadPlan, one_table
from changefeed.spark.shapes import AllTables
from changefeed.spark.types import spark_schema
from changefeed.spark.writing import WritePlan, writing
from changefeed.spark_runtime.python import use_this_python
from changefeed.stages.transcode import Language

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def register(spark: SparkSession) -> None:
    """Registers the data source `changefeed` in a session.

    It does what `spark.dataSource.register(changefeed.spark.DataSource)` does. On one machine, it also makes the workers run this
    Python if PYSPARK_PYTHON is not set: Spark would run the first `python3` on the PATH.

    Raises:
        ConfigError: PYSPARK_PYTHON names a Python that has no changefeed, or another version of Python.
    """
    if (context := getattr(spark, "_sc", None)) is not None:  # a client of Spark Connect has none
        use_this_python(context)
    spark.dataSource.register(DataSource)


class DataSource(datasource.DataSource):
    """The data source `changefeed`; its options are those of `ReadOptions` and `WriteOptions`. `register` registers it."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._settings = dict(options)
        self._known: Known | None = None
        self._own_schema = False  # Spark pickles the object after it has asked for the schema

    @classmethod
    def name(cls) -> str:
        """The name for `spark.read.format(…)`."""
        return "changefeed"

    def schema(self) -> StructType:
        """The schema of the result; for one table, with the columns found in the records."""
        self._own_schema = True
        reading = self._reading(None)
        return spark_schema(RECORDS if reading is None else reading.schema)

    def reader(self, schema: StructType) -> LogReader | KafkaReader:
        """Creates a batch reader of the records that the logs or topics have now."""
        return self._input().reader(self._reading(self._users(schema)))

    def streamReader(self, schema: StructType) -> LogStreamReader | KafkaStreamReader:  # Spark's name
        """Creates a stream reader of the logs or topics."""
        return self._input().stream_reader(self._reading(self._users(schema)))

    def writer(self, schema: StructType, overwrite: bool) -> LogWriter | KafkaWriter:
        """Creates a batch writer to a folder of record logs, or to Kafka."""
        if overwrite:
            raise ConfigError("changefeed: a log cannot be overwritten: write with mode `append`, to a new folder")
        target, plan = self._write(schema, uuid.uuid4().hex[:8])
        return LogWriter(target, plan) if isinstance(target, LogFolder) else KafkaWriter(target, plan)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LogStreamWriter | KafkaStreamWriter:  # Spark's name
        """Creates a stream writer to a folder of record logs, or to Kafka."""
        check_arrow_streams()
        if overwrite:
            raise ConfigError("changefeed: a log cannot be overwritten: write with output mode `append`")
        target, plan = self._write(schema)
        return LogStreamWriter(target, plan) if isinstance(target, LogFolder) else KafkaStreamWriter(target, plan)

    def _write(self, schema: StructType, write_id: str = "") -> tuple[LogFolder | Topics, WritePlan]:
        """Returns target and plan of a write; `write_id` makes the file names of a batch write unique."""
        options, own, kafka = write_options(self._settings)
        if options.keys is not None and options.table is None:
            raise ConfigError("changefeed: option keys is for the rows of one table, which the option table names")
        keys = {str(options.table): tuple(options.keys.split(","))} if options.keys is not None else {}
        target = topics(kafka, options.topic) if options.path is None else LogFolder(local_path(options.path), write_id)
        plan = writing(Language(options.protocol, own), options.table, schema, options.default_topic, keys)
        return target, plan

    def _users(self, schema: StructType) -> StructType | None:
        """Returns the schema if the user has set it, else None."""
        return None if self._own_schema else schema

    def _input(self) -> Logs | KafkaInput:
        """Returns where the records are."""
        options, _, kafka = read_options(self._settings)
        if not kafka:
            if options.path is None:
                raise ConfigError(
                    "changefeed: no path: load a log or a pattern, as .load('history/*.jsonl.gz'), or set kafka.bootstrap.servers"
                )
            return Logs(local_path(options.path))
        return kafka_input(kafka, options)

    def _reading(self, schema: StructType | None) -> ReadPlan | None:
        """Returns the plan of the read; None to return the records undecoded.

        Args:
            schema: the schema that the user has set; None for the columns found in the records.
        """
        options, own, _ = read_options(self._settings)
        if options.protocol is None and options.table is None:
            return None
        language = options.language(own)
        letters = options.dead_letters == "rows"
        if options.table is None:
            return ReadPlan(language, AllTables(letters))
        known = self._look(language, options)
        return ReadPlan(language, one_table(options, known, schema), known)

    def _look(self, language: Any, options: ReadOptions) -> Known:
        if self._known is None:
            assert options.table is not None
            split_name(options.table)
            records = self._input().first(options.schema_records)
            self._known = Look(options.table).read(records, language).known(language)
        return self._known
