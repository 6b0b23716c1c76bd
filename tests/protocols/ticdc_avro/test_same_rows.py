"""One upstream, two protocols: the rows of the shop are the same, as far as both protocols carry them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.protocols.conformance.cases import History, decode, histories, lines

ALL = {history.file.rpartition("/")[2]: history for history in histories()}
OURS = ["avro-ext.newarch.jsonl.gz", "avro-watermark.classic.jsonl.gz"]
MEMBERS = {"flags": ("vip", "eu", "blocked"), "status": ("new", "paid", "shipped", "cancelled")}


def as_numbers(image: dict[str, Any]) -> dict[str, Any]:
    """The image as Open Protocol has it: numbers of members, not their names."""
    numbered = dict(image)
    if isinstance(flags := image.get("flags"), str):
        numbered["flags"] = {"bits": sum(1 << MEMBERS["flags"].index(name) for name in flags.split(",") if name)}
    if isinstance(status := image.get("status"), str):
        numbered["status"] = {"index": MEMBERS["status"].index(status) + 1}
    return numbered


def written(history: History) -> Counter[str]:
    """Inserts and updates with all members that both protocols carry, as counts."""
    counts: Counter[str] = Counter()
    for line in lines(decode(history)):
        row = json.loads(line)
        if row["kind"] == "row" and row["after"] is not None and row["keys"]:
            kept = {k: row[k] for k in ("op", "database", "table", "keys", "commit_ts", "commit_time", "irregular")}
            counts[json.dumps({**kept, "after": as_numbers(row["after"])})] += 1
    return counts


def deleted(history: History) -> Counter[str]:
    """Deletes by table and key, as counts: Avro contains no more of them."""
    counts: Counter[str] = Counter()
    for line in lines(decode(history)):
        row = json.loads(line)
        if row["kind"] == "row" and row["op"] == "delete" and row["keys"]:
            counts[
                json.dumps([row["database"], row["table"], {name: row["before"][name] for name in row["keys"]}])
            ] += 1
    return counts


@pytest.mark.parametrize("file", OURS)
def test_rows_are_those_of_the_open_protocol(file: str) -> None:
    assert written(ALL[file]) == written(ALL["open-3.newarch.jsonl.gz"])


@pytest.mark.parametrize("file", OURS)
def test_deletes_are_those_of_the_open_protocol(file: str) -> None:
    assert deleted(ALL[file]) == deleted(ALL["open-3.newarch.jsonl.gz"])
