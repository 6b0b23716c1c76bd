"""Damaged records by the million, by the kernel and by the reference: whether both say the same, and neither raises.

    python bench/agreement.py [--records 10000000] [--seed N] [--out bench/results/agreement.json] [PROTOCOL…]
    python bench/agreement.py --repeat N PROTOCOL

Records of all recorded histories and vectors with accidents to their bytes and to their structure, several shapes of one
table in one batch (`tests/kernel/mutants.py`). All are shown to the kernel. What it takes, and some of the others, both decode:
compared are tables with their shapes, keys and types, rows, events, and dead letters. Each run has a new seed, which it prints;
a difference names the seed that makes it again, with `--repeat`. What is done is added up in the file after every chunk; a run
goes on until each protocol has had its records.
"""

from __future__ import annotations

import argparse
import json
import logging
import secrets
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from changefeed.protocols import PROTOCOLS, protocol
from tests.kernel.mutants import compare

CHUNK = 24_000  # records
WITH_KERNEL = sorted(name for name in PROTOCOLS if protocol(name).kernel is not None)
_COUNTS = ("records", "compared", "taken", "rows", "dead", "shapes")
_NOTHING = {**dict.fromkeys(_COUNTS, 0), "raised": 0, "different": 0, "seconds": 0.0}


def chunk(protocol: str, seed: int, done: dict[str, Any]) -> list[str]:
    """Compares the records of one chunk, and adds up what came of them; the differences."""
    began = time.process_time()
    result = compare(protocol, seed, CHUNK)
    for name in _COUNTS:
        done[name] += getattr(result, name)
    done["raised"] += len(result.raised)
    done["different"] += len(result.different)
    done["seconds"] = round(done["seconds"] + time.process_time() - began, 1)
    return [*result.raised, *result.different]


def main() -> None:
    """Goes on until every protocol has had its records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("protocols", nargs="*", default=WITH_KERNEL)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 40))
    parser.add_argument("--repeat", type=int, metavar="N", help="the chunk with this seed alone, counted nowhere")
    parser.add_argument("--out", type=Path, default=Path("bench/results/agreement.json"))
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if arguments.repeat is not None:
        print(
            *(failure for name in arguments.protocols for failure in chunk(name, arguments.repeat, {**_NOTHING})),
            sep="\n",
        )
        return
    print(f"--seed {arguments.seed}", flush=True)
    done = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for name in arguments.protocols:
        done.setdefault(name, {**_NOTHING, "seeds": []})["seeds"].append(arguments.seed)
    number = 0
    while todo := [name for name in arguments.protocols if done[name]["records"] < arguments.records]:
        for name in todo:
            for failure in chunk(name, arguments.seed + number, done[name]):
                print(f"DIFFERENT {failure}", flush=True)
            arguments.out.write_text(json.dumps(done, indent=1) + "\n")
        number += 1
        shown = (f"{name} {done[name]['records']:,} ({done[name]['different']} different)" for name in todo)
        print("; ".join(shown), flush=True)


if __name__ == "__main__":
    main()
