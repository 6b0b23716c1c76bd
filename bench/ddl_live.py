"""Random histories of DDL and rows on a real server, as producers send them: are the tables those of the server, value by value?

    python bench/ddl_live.py --server mariadb --histories 2000 --seed 7 --out /tmp/ddl-mariadb
    python bench/ddl_live.py --server mariadb --out /tmp/ddl-mariadb --judge       what was recorded, by the product as it is now
    python bench/ddl_live.py --server mariadb --out /tmp/ddl-mariadb --table       the verdicts

With `--logs` no engine is needed: the server's log goes through the product's own encoders, as TiCDC's Open Protocol, Avro,
Debezium and Canal-JSON, with statements of TiDB's own parser, and as Tencent DTS (MariaDB: DTS alone).

`tests/live` draws, records and judges: see `campaign.py` there for the files of the folder, `verdicts.py` for the verdicts. A
history that stops is judged again without the statement that stopped it, and one that is wrong is reduced to the few
statements that make it so. The program goes on where it ended. Exit code 1: a history was wrong, or has shown a defect.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.live.campaign import SERVERS, Campaign


def main() -> int:
    """Runs a campaign, and prints its verdicts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=sorted(SERVERS), required=True)
    parser.add_argument("--histories", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help="the campaign's folder")
    parser.add_argument("--per-round", type=int, default=40, help="histories that one engine follows")
    parser.add_argument("--processes", type=int, default=1, help="that judge")
    parser.add_argument(
        "--all-ways", action="store_true", help="judge each history in all ways, not in one that changes"
    )
    parser.add_argument("--logs", action="store_true", help="send the server's log by the own encoders")
    parser.add_argument("--no-reduce", action="store_true", help="do not reduce what is wrong")
    parser.add_argument("--judge", action="store_true", help="judge again what was recorded")
    parser.add_argument("--table", action="store_true", help="print the verdicts that there are")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # servers and engine are ended, too
    campaign = Campaign(
        options.server, options.out, options.histories, options.seed, options.per_round, options.processes,
        all_ways=options.all_ways, reduce=not options.no_reduce, logs=options.logs, progress=_progress,
    )  # fmt: skip
    if options.judge:
        campaign.judge_again()
    elif not options.table:
        campaign.run()
    print("\n".join(campaign.table()))
    return 1 if campaign.failed else 0


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:150.150}", end="", file=sys.stderr, flush=True)
    elif not text.startswith("phase"):
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
