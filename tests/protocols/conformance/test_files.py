"""The same thing has the same file name in every protocol's folder."""

from __future__ import annotations

from collections import Counter

import pytest

from changefeed.protocols import PROTOCOLS
from tests.protocols.conformance.cases import folder

# Every protocol has these.
REQUIRED = {
    "README.md",
    "__init__.py",
    "decoder.py",
    "encoder.py",
    "options.py",
    "recognize.py",
    "rows.py",
    "shapes.py",
}
# Names for what several protocols have. A protocol that has none of it lacks the file.
# Other names are for what one protocol alone has.
SHARED = {
    "batching.py": "which rows share a record",
    "blocks.py": "schema blocks, as they are written",
    "claim_check.py": "rows in claim-check files",
    "ddl.py": "schema changes",
    "envelope.py": "the members around the columns",
    "framing.py": "the pieces of a record, or the records of a piece",
    "images.py": "the two images of a row",
    "marks.py": "events that are not rows",
    "names.py": "names of topics, tables and schemas",
    "redefine.py": "values under the types of DDL",
    "defaults.py": "the defaults of columns",
    "table_changes.py": "the tables in a schema change",
    "templates.py": "shapes for the kernel's encoder",
    "types.py": "column types",
    "values.py": "one column value, both ways",
    "values": "the same, in a folder",
}


def files(name: str) -> set[str]:
    return {path.name for path in folder(name).iterdir()} - {"__pycache__", "vectors"}


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_a_folder_has_the_files_that_all_protocols_have(name: str) -> None:
    assert files(name) >= REQUIRED
    assert (folder(name) / "vectors").is_dir()


def test_a_name_that_is_not_shared_belongs_to_one_protocol() -> None:
    own = Counter(file for name in PROTOCOLS for file in files(name) - REQUIRED - SHARED.keys())
    assert {file for file, count in own.items() if count > 1} == set()


def test_a_shared_name_is_used_by_two_protocols() -> None:
    users = {name: [protocol for protocol in PROTOCOLS if name in files(protocol)] for name in SHARED}
    users["values.py"] += users.pop("values")
    assert {name for name, protocols in users.items() if len(protocols) < 2} == set()
