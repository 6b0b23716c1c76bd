# %% [markdown]
# Changes as Arrow and pandas tables, and the same log translated to Debezium's format. Needs no Spark, but pandas.

# %%
import json
import tempfile
from pathlib import Path

import pyarrow as pa

import changefeed as cf
from changefeed import record_log

LOG = Path(__file__).resolve().parents[1] / "shop" / "history.jsonl.gz"
OUT = Path(tempfile.mkdtemp())

# %% All changes of one table as Arrow tables. A batch has a table for each set of columns: `phone` was added on the way.
batches = [
    table.to_arrow()
    for decoded in cf.read(LOG, "ticdc-open").batches()
    for table in decoded.tables
    if table.name == "shop.customers"
]
customers = pa.concat_tables(batches, promote_options="default")
print(customers.num_rows, "changes of shop.customers,", "phone" in customers.column_names)

# %% In pandas: how many changes of each kind, and the customer that changed most often.
frame = customers.to_pandas()
print(frame["_op"].value_counts().to_dict())
often = frame["id"].value_counts()
print("customer", often.index[0], "changed", often.iloc[0], "times")

# %% Translate the log to the format of Debezium's MySQL connector. What the target cannot carry is refused unless it is allowed.
options = {"topic.prefix": "srv1", "bigint.unsigned.handling.mode": "precise", "decimal.handling.mode": "string"}
try:
    cf.transcode(LOG, OUT / "debezium.jsonl.gz", source="ticdc-open", target="debezium-mysql", target_options=options)
except cf.ConfigError as error:
    print("refused:", error)

# %% Consumers of Debezium need neither TiDB's order of commits nor its resolved events.
done = cf.transcode(
    LOG,
    OUT / "debezium.jsonl.gz",
    source="ticdc-open",
    target="debezium-mysql",
    target_options=options,
    allow_loss=["order", "resolved"],
)
print(done.records, "records; lost:", ", ".join(done.lost))

# %% A record as a consumer gets it: a topic for each table; in the JSON's payload `before`, `after`, `op` and `source`.
records = [record for batch in record_log.read(OUT / "debezium.jsonl.gz") for record in batch.to_pylist()]
print(sorted({record["topic"] for record in records}))
update = next(
    record for record in records if record["topic"] == "srv1.shop.customers" and b'"op":"u"' in record["value"]
)
value = json.loads(update["value"])["payload"]
print(value["before"]["balance"], "→", value["after"]["balance"], value["source"]["db"], value["source"]["table"])


# %% Both logs have the same changes of `shop.orders`.
def totals(log: Path, protocol: str) -> list[tuple[str, str]]:
    events = [event for event in cf.read(log, protocol) if isinstance(event, cf.RowChange) and event.table == "orders"]
    return [(event.op, str((event.after or event.before or {})["total"])) for event in events]


print(totals(LOG, "ticdc-open") == totals(OUT / "debezium.jsonl.gz", "debezium-mysql"))
