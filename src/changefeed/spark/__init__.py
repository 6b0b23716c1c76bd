"""changefeed for PySpark: a data source, and the same decoding and encoding for DataFrames that one has already.

    import changefeed.spark

    spark.dataSource.register(changefeed.spark.DataSource)
    logs = spark.read.format("changefeed").option("protocol", "ticdc-open")
    logs.load("history/*.jsonl.gz")                                  # every change of every table, images as VARIANT
    logs.option("table", "shop.orders").load("history/*.jsonl.gz")   # one table's changes, in its own columns

    records = spark.readStream.format("kafka")…load()
    changefeed.spark.decode(records, "ticdc-open", table="shop.orders")

    stream.writeStream.format("changefeed").option("protocol", "tencent-dts")…start("copies")   # a log, or Kafka, of any changes

Record logs are read by the data source. Kafka is read by Spark's own connector and decoded by `decode`: a Python data source
cannot use that connector, and what it has (offsets in the checkpoint, new partitions, rate limits, SASL, transactions) would
have to be built a second time on another client.
"""

from __future__ import annotations

from importlib.util import find_spec

from changefeed.errors import MissingExtraError

if not (find_spec("pyspark") and find_spec("pandas")):  # mapInArrow imports pandas in the workers
    raise MissingExtraError("changefeed.spark", "spark")

from changefeed.spark.auto_cdc import auto_cdc, auto_cdc_arguments
from changefeed.spark.frames import decode, encode
from changefeed.spark.source import DataSource

__all__ = ["DataSource", "auto_cdc", "auto_cdc_arguments", "decode", "encode"]
