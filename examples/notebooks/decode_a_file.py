# %% [markdown]
# Decode a file of records: which protocol is it in, what happened, and one table as columns. Needs no Spark.

# %%
from collections import Counter
from pathlib import Path

import changefeed as cf

LOG = Path(__file__).resolve().parents[1] / "shop" / "history.jsonl.gz"

# %% The protocol is found by decoding a sample.
(topic,) = cf.detect(LOG)
assert topic.best is not None
protocol = topic.best.protocol
print(topic.name, protocol)

# %% Every event in order, as Python values.
events = cf.read(LOG, protocol=protocol)
ops = Counter(event.op if isinstance(event, cf.RowChange) else type(event).__name__ for event in events)
print(dict(ops))

# %% One row: what it was, what it became, and when it was committed.
for event in cf.read(LOG, protocol=protocol):
    if isinstance(event, cf.RowChange) and event.key == {"id": 137} and event.op == "update":
        assert event.before is not None
        assert event.after is not None
        print(f"{event.commit_time:%H:%M:%S}", event.before["balance"], "→", event.after["balance"])

# %% The changes of one table as an Arrow table, a batch at a time.
tables = [table for batch in cf.read(LOG, protocol=protocol).batches() for table in batch.tables]
orders = [table.to_arrow() for table in tables if table.name == "shop.orders"]
print(sum(map(len, orders)), "changes of shop.orders, the first columns:", orders[0].column_names[:6])
