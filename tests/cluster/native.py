"""A pipeline whose rows are always written by a cluster's workers, even a few: python native.py PROPERTIES LOG LAKE"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from changefeed.pipeline.run import run
from changefeed.sinks.apply import step
from changefeed.spark_runtime.session import session
from tests.pipeline.kit.running import definition


def main(properties: str, log: str, lake: str) -> None:
    step._HERE_WEIGHT = -1  # below it the driver writes by itself
    config = json.loads(properties)
    spark = session("native", master=config.pop("spark.master"), config=config)
    run(definition(Path(log), Path(lake), limit=20), spark, once=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
