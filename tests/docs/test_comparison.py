"""The comparison has the figures of the benchmarks, word for word, and a source for what it claims about others."""

from __future__ import annotations

import re

from tests.docs.shown import ROOT

PAGE = (ROOT / "docs/guides/comparison.md").read_text(encoding="utf-8")
JOBS = (ROOT / "bench/README.md").read_text(encoding="utf-8").partition("\n## jobs\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """The cells of the rows of all tables, without emphasis."""
    lines = re.findall(r"(?m)^\|( .*)\|$", text)
    return [[cell.strip("* ") for cell in line.split("|")] for line in lines]


def test_measured_rows_are_those_of_the_benchmarks() -> None:
    measured = {row[0].partition(": ")[2]: row[1:] for row in rows(JOBS) if re.match(r"\w+: ", row[0])}
    renamed = {
        "the same over ten tables": "the same over ten tables",
        "1 000 tables, 200 changes each": "1 000 tables, 200 changes each",
        "500 changes a second of five tables, for 600 s": "500 changes a second of five tables, 600 s",
    }
    section = PAGE.partition("\n## Measured\n")[2].partition("\n## ")[0]
    checked = 0
    for job, ours, by_hand, paimon in rows(section)[1:-1]:
        cells = measured[renamed.get(job, job)]
        assert (ours, by_hand) == (cells[0], cells[1]), job
        assert paimon == (cells[3] if len(cells) > 3 and cells[3] else "not measured"), job
        checked += 1
    assert checked == 7
    assert "a change is in its table 0.81 s after it was sent (median" in JOBS
    assert "deltalake after 0.74 s" in " ".join(JOBS.split())


def test_the_best_of_each_measured_row_is_bold() -> None:
    section = PAGE.partition("\n## Measured\n")[2].partition("\n## ")[0]
    for line in re.findall(r"(?m)^\| (.*\d.*) \|$", section):
        values = {cell: float(re.sub(r"[^\d.]", "", cell)) for cell in line.split(" | ")[1:] if re.search(r"\d", cell)}
        assert min(values, key=lambda cell: values[cell]).startswith("**"), line


def test_every_tool_has_its_sources() -> None:
    section = PAGE.partition("\n## Features\n")[2].partition("\n## ")[0]
    table = rows(section)
    for column, tool in enumerate(table[0][2:], 2):
        cells = [row[column] for row in table[1:] if len(row) > column]
        assert sum("](https://" in cell for cell in cells) >= 2, tool
