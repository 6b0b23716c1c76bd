"""The records of Debezium's engine and of an event pipeline, for the same statements on one server: are they equal?

    python bench/debezium_events.py --server mariadb
    python bench/debezium_events.py --server mysql --case transactions --show 3
    python bench/debezium_events.py --server mysql --histories 40 --seed 7        random histories of DDL and rows

A line for each case of `tests/debezium_events/cases.py`: records, those that are equal, and those that differ by known defects
of the connector alone. Exit code 1: a record differs otherwise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.debezium_events.cases import CASES
from tests.debezium_events.comparing import Compared, compare, unexplained
from tests.debezium_events.histories import compare_histories
from tests.services.database import Database, MariaDb, MySql

SERVERS: dict[str, Callable[[], Database]] = {
    "mariadb": lambda: MariaDb("--sql-mode=", "--binlog-annotate-row-events=ON"),
    "mysql": lambda: MySql("--sql-mode=", "--binlog-rows-query-log-events=ON"),
}


def main() -> int:
    """Runs the cases, and prints their results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=sorted(SERVERS), required=True)
    parser.add_argument("--case", help="a part of the names of the cases to run")
    parser.add_argument("--show", type=int, default=0, help="differences to show of each case")
    parser.add_argument(
        "--histories", type=int, default=0, help="number of random histories to run instead of the cases"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.histories:
        return _histories(options.server, range(options.seed, options.seed + options.histories), options.show)
    chosen = [case for case in CASES if options.server in case.servers and (options.case or "") in case.name]
    results = []
    with SERVERS[options.server]() as database:
        for case in chosen:
            with tempfile.TemporaryDirectory() as folder:
                results.append(compare(case, database, Path(folder)))
            _print(results[-1], options.show)
    equal, count = sum(result.equal for result in results), sum(result.count for result in results)
    explained = sum((result.explained for result in results), Counter[str]())
    print(f"{'all':30} {count:6} {equal:6} {explained.total():6} {count - equal - explained.total():6}")
    for reason, number in explained.most_common():
        print(f"  {number:5} {reason}")
    return 1 if any(result.different for result in results) else 0


def _histories(server: str, numbers: range, show: int) -> int:
    with {"mariadb": MariaDb, "mysql": MySql}[server]() as database, tempfile.TemporaryDirectory() as folder:
        result = compare_histories(database, numbers, Path(folder))
    print(
        f"{len(numbers) - len(result.skipped)} of {len(numbers)} histories compared: {result.compared} records, "
        f"{result.equal} equal, {len(result.different)} values different, {len(result.missing)} records missing"
    )
    for reason, number in result.defects.most_common():
        print(f"  {number:5} {reason}")
    for record, path, theirs, ours in result.different[:show]:
        print(f"    {record.topic} {path}: {theirs!r:.150} of the connector, {ours!r:.150} of the pipeline")
    for who, record in result.missing[:show]:
        print(f"    not in the {who}: {record}"[:400])
    return 1 if result.different or result.missing else 0


def _print(result: Compared, show: int) -> None:
    print(
        f"{result.case.name:30} {result.count:6} {result.equal:6} {result.explained.total():6} {len(result.different):6}",
        flush=True,
    )
    for expected, written in result.different[:show]:
        if expected is None or written is None:
            print(
                f"    {'not in the pipeline' if written is None else 'not in the connector'}: {expected or written}"[
                    :400
                ]
            )
            continue
        for path, theirs, ours in unexplained(expected, written):
            print(f"    {expected.topic} {path}: {theirs!r:.150} of the connector, {ours!r:.150} of the pipeline")


if __name__ == "__main__":
    sys.exit(main())
