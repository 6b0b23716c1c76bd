"""changefeed for PySpark: a data source for record logs and Kafka, and functions that decode and encode DataFrames of records.

    import changefeed.spark

    changefeed.spark.register(spark)
    logs = spark.read.format("changefeed").option("protocol", "ticdc-open")
    logs.load("history/*.jsonl.gz")                                  # every change of every table, images as VARIANT
    logs.option("table", "shop.orders").load("history/*.jsonl.gz")   # one table's changes, in its own columns

    topics = spark.readStream.format("changefeed").option("protocol", "ticdc-open")
    topics.options(**{"kafka.bootstrap.servers": "broker:9092", "subscribe": "shop"}).load()

    records = spark.readStream.format("kafka")…load()                # Spark's own connector
    changefeed.spark.decode(records, "ticdc-open", table="shop.orders")

    stream.writeStream.format("changefeed").option("protocol", "tencent-dts")…start("copies")   # a log, or Kafka, of any changes

The data source reads Kafka with librdkafka, in the workers that decode the records. Spark's own connector has more logins, limits
the batches of a stream, and Spark keeps the state that some protocols need between them; `decode` decodes its records.
"""

from __future__ import annotations

from importlib.util import find_spec

from changefeed.errors import MissingExtraError

if not (find_spec("pyspark") and find_spec("pandas")):  # mapInArrow imports pandas in the workers
    raise MissingExtraError("changefeed.spark", "spark")

from changefeed.spark.auto_cdc import auto_cdc, auto_cdc_arguments
from changefeed.spark.frames import decode, encode
from changefeed.spark.source import DataSource, register

__all__ = ["DataSource", "auto_cdc", "auto_cdc_arguments", "decode", "encode", "register"]
