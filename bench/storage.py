"""Measures the CPU of small requests to an object store: by `changefeed.storage`, through Spark's JVM, by Arrow, on S3.

    python -m bench.storage [--requests 200] [--rounds 3] [--out FILE]

The server is moto, a process of its own whose CPU does not count. Each line has the CPU of this process and of its JVM for one
request, in milliseconds, and its time by the clock: create a file of 1 KB if its name is free (Arrow cannot do so, and puts),
list a folder of 100 files, read a file. The ways take turns, and the least of the rounds counts. The JVM is warm: it has made
`--requests` requests of each kind before.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from changefeed.pipeline.store.hadoop import HadoopFolder
from changefeed.spark_runtime.session import session
from changefeed.storage import Folder
from changefeed.storage.folders import folder_at
from tests.services.s3 import S3Server

_DATA = b"x" * 1023 + b"\n"
_LISTED = 100


class Cost(NamedTuple):
    """Milliseconds of a request."""

    cpu: float
    wall: float


class Way(NamedTuple):
    """A way to an object store."""

    create: Callable[[str, bytes], Any]
    names: Callable[[str], list[str]]
    read: Callable[[str], bytes | None]


def _arrow(s3: S3Server, root: str) -> Way:
    from pyarrow import fs

    system = fs.S3FileSystem(
        access_key=s3.keys[0], secret_key=s3.keys[1], endpoint_override=s3.url, region="us-east-1", scheme="http"
    )

    def create(name: str, data: bytes) -> None:
        with system.open_output_stream(f"lake/{root}/{name}") as out:
            out.write(data)

    def names(below: str) -> list[str]:
        return [info.base_name for info in system.get_file_info(fs.FileSelector(f"lake/{root}/{below}"))]

    def read(name: str) -> bytes:
        with system.open_input_file(f"lake/{root}/{name}") as file:
            return bytes(file.read())

    return Way(create, names, read)


def _cost(processes: list[psutil.Process], requests: int, act: Callable[[int], object]) -> Cost:
    """The mean cost of a request: `act` gets its number."""
    cpu, wall = _cpu(processes), time.perf_counter()
    for number in range(requests):
        act(number)
    wall = time.perf_counter() - wall
    return Cost((_cpu(processes) - cpu) * 1000 / requests, wall * 1000 / requests)


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def measure(
    ways: dict[str, Way], processes: list[psutil.Process], requests: int, rounds: int
) -> dict[str, dict[str, Cost]]:
    """Returns way -> request -> its least cost."""
    costs: dict[str, dict[str, Cost]] = {name: {} for name in ways}
    for turn in range(-1, rounds):  # the first is not counted
        for name, way in ways.items():
            acts: dict[str, Callable[[int], object]] = {
                "create": lambda n, way=way, turn=turn: way.create(f"new/{turn}-{n}", _DATA),  # type: ignore[misc]
                "list": lambda n, way=way: way.names("listed"),  # type: ignore[misc]
                "read": lambda n, way=way: way.read(f"listed/{n % _LISTED:03}"),  # type: ignore[misc]
            }
            for request, act in acts.items():
                cost = _cost(processes, requests, act)
                if turn >= 0:
                    costs[name][request] = min(cost, costs[name].get(request, cost))
    return costs


def main() -> None:
    """Measures and prints the costs."""
    parser = argparse.ArgumentParser(description="Measures requests to an object store.")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="append the lines to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, S3Server(Path(folder)) as s3:
        spark = session("bench", master="local[1]", config={"spark.driver.memory": "1g", **s3.properties})
        own = psutil.Process()
        java = [p for p in own.children(recursive=True) if p.name() == "java"]
        roots = {name: f"{name}-{os.getpid()}" for name in ("storage", "jvm", "arrow")}
        opened = {name: _folder(s3, root) for name, root in roots.items()}
        for room in opened.values():
            for n in range(_LISTED):
                room.put(f"listed/{n:03}", _DATA)
        jvm, room = HadoopFolder(spark, f"s3a://lake/{roots['jvm']}"), opened["storage"]
        ways = {
            "storage": Way(room.create, room.names, room.read),
            "jvm": Way(jvm.create, jvm.names, jvm.read),
            "arrow": _arrow(s3, roots["arrow"]),
        }
        costs = measure(ways, [own, *java], arguments.requests, arguments.rounds)
        spark.stop()
    lines = ["way       request   CPU ms   wall ms"]
    for name, of in costs.items():
        lines += [f"{name:<10}{request:<8}{cost.cpu:>8.2f}{cost.wall:>10.2f}" for request, cost in of.items()]
    print("\n".join(lines))
    if arguments.out is not None:
        with arguments.out.open("a") as out:
            out.write("\n".join(lines) + "\n")


def _folder(s3: S3Server, root: str) -> Folder:
    folder = folder_at(f"s3://lake/{root}", s3.storage())
    assert folder is not None
    return folder


if __name__ == "__main__":
    main()
