# %% [markdown]
# Debezium's changes on Spark: the changes of one table as typed rows, then whole Delta tables by a pipeline.
# Needs `pip install 'changefeed[spark]'` and Java 17 or 21.

# %%
import tempfile
from pathlib import Path

from pyspark.sql import Window
from pyspark.sql.functions import col, row_number

import changefeed as cf
from changefeed.spark_runtime.session import session

LOG = Path(__file__).resolve().parents[1] / "debezium" / "history.jsonl.gz"
LAKE = Path(tempfile.mkdtemp()) / "lake"

# How the connector sent values, by its own option names. Its JSON has no schemas, which would show it.
SENT = {"decimal.handling.mode": "string", "bigint.unsigned.handling.mode": "precise"}

# %% A Spark session with Delta's jars. Your own session will do, if it has them.
spark = session("notebook")
cf.spark.register(spark)

# %% The changes of one table. The connector sent decimals as texts and dates as numbers; the rows have the types of the DDL.
changes = (
    spark.read.format("changefeed")
    .options(protocol="debezium-mysql", table="shop.customers", **SENT)
    .load(LOG.as_posix())
)
print(*(f"{field.name} {field.dataType.simpleString()}" for field in changes.schema if field.name[0] != "_"), sep=", ")
print({row["_op"]: row["count"] for row in changes.groupBy("_op").count().orderBy("_op").collect()})

# %% The newest row of each customer, from the changes alone: the last change of each key, unless it deletes the row.
# One topic has one partition here, so the offset orders the changes.
newest = Window.partitionBy("id").orderBy(col("_position").desc())
latest = changes.withColumn("_nth", row_number().over(newest)).where("_nth = 1 AND _op <> 'delete'")
print(latest.count(), "customers, by the changes")

# %% A pipeline does this for all tables, transaction by transaction, and each change once.
pipeline = cf.Pipeline.from_dict(
    {
        "source": {"type": "files", "path": str(LOG), "protocol": {"name": "debezium-mysql", **SENT}},
        "sink": {"type": "delta", "path": str(LAKE)},
        "pipeline": {"name": "debezium"},
    }
)
summary = pipeline.run(spark)
print(summary.applied, "rows applied:", ", ".join(summary.tables))

# %% The cut names a version of every table. Read at these versions, all tables show the same moment of the database.
cut = pipeline.status().cut
assert cut is not None
version = cut.tables["shop.customers"]
customers = spark.read.format("delta").option("versionAsOf", version).load(str(LAKE / "shop" / "customers"))
print(customers.count(), "customers, by the pipeline, after transaction", cut.name)
same = customers.select("id", "name", "balance").exceptAll(latest.select("id", "name", "balance")).isEmpty()
print("the same rows" if same else "other rows")
