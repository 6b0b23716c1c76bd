"""Decodes damaged records by the million: the suite's test of 200 000 records of each protocol, with any number of records.

    python bench/mutations.py [--records 10000000] [--processes 2] [--out bench/results/mutations.json] [PROTOCOL…]

The records of all recorded histories and vectors get one to four damages each, made from numbered seeds. Each must become a
dead letter or decode to events; no other result is allowed. A chunk that fails prints its number; the same number makes the
same records again. The results are saved after every chunk, and a run continues where the last one ended.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from changefeed.model.batch import record_batch
from changefeed.protocols import PROTOCOLS
from tests.protocols.conformance.cases import reference
from tests.protocols.conformance.damage import HISTORIES, check_accounted, mutations

CHUNK = 10_000  # records


def chunk(protocol: str, number: int) -> dict[str, Any]:
    """Makes the records of one chunk and decodes them; what came of them, and how long decoding took."""
    recorded = [history for history in HISTORIES if history.protocol == protocol]
    history, dead, seconds = recorded[number % len(recorded)], 0, 0.0
    decoder = reference(history)
    for damaged in mutations(history, number, CHUNK):
        records = record_batch(damaged)
        began = time.process_time()
        decoded = decoder.decode(records)
        seconds += time.process_time() - began
        check_accounted(decoded, len(damaged))
        dead += len({letter.place.record for letter in decoded.dead})
    return {"records": CHUNK, "dead": dead, "seconds": seconds}


def rounds(protocols: list[str], done: dict[str, Any], records: int) -> Iterator[tuple[str, int]]:
    """The chunks that are not done yet, of each protocol in turn."""
    for number in range(-(-records // CHUNK)):
        yield from ((name, number) for name in protocols if number >= done[name]["records"] // CHUNK)


def main() -> None:
    """Goes on until every protocol has had its records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("protocols", nargs="*", default=sorted(PROTOCOLS))
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("bench/results/mutations.json"))
    arguments = parser.parse_args()
    done = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for name in arguments.protocols:
        done.setdefault(name, {"records": 0, "dead": 0, "seconds": 0.0})
    todo = list(rounds(arguments.protocols, done, arguments.records))
    with ProcessPoolExecutor(arguments.processes) as pool:
        for (name, number), result in zip(todo, pool.map(chunk, *zip(*todo, strict=True)), strict=True):
            done[name] = {what: round(done[name][what] + some, 2) for what, some in result.items()}
            arguments.out.write_text(json.dumps(done, indent=1) + "\n")
            print(f"{name} {number}: {done[name]['records']:,} records, {done[name]['dead']:,} dead", flush=True)


if __name__ == "__main__":
    main()
