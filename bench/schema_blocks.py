"""Measures the cost of schema blocks: Debezium-shaped JSON with and without them, decoded by the kernel in turns.

    python bench/schema_blocks.py [--rows 50000] [--runs 15] [--json]

The same changes in both forms, one core. A machine has slow and fast minutes, so the two are timed one right after the other,
and the ratio of records a second is the median over such pairs.
"""

from __future__ import annotations

import argparse
import json
from statistics import median

from changefeed.bench.changes import Workload, workload
from changefeed.bench.every import decode
from changefeed.bench.turns import timed


def seconds(work: Workload) -> float:
    """CPU seconds of decoding the records."""
    return timed(lambda: decode(work, "on"))


def main() -> None:
    """Measures each protocol."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for name in ("ticdc-debezium", "debezium-mysql"):
        plain, schema = workload(name, arguments.rows), workload(f"{name}, schema", arguments.rows)
        pairs = [(seconds(plain), seconds(schema)) for _ in range(arguments.runs)]
        ratios = sorted(without / with_schema for without, with_schema in pairs)
        speeds = [arguments.rows / median(took) for took in zip(*pairs, strict=True)]
        longer = sum(map(len, schema.values)) / sum(map(len, plain.values))
        result = {
            "protocol": name,
            "rows": arguments.rows,
            "runs": arguments.runs,
            "rows_per_second": {"without": round(speeds[0]), "with": round(speeds[1])},
            "values_times_as_long": round(longer, 1),
            "ratio": {"median": round(median(ratios), 3), "least": round(ratios[0], 3), "most": round(ratios[-1], 3)},
        }
        if arguments.json:
            print(json.dumps(result))
        else:
            print(
                f"{name:<15} {result['rows_per_second']} rows/s, values {longer:.1f} x as long, ratio {result['ratio']}"
            )


if __name__ == "__main__":
    main()
