"""The same thing has the same file name in every protocol's folder."""

from __future__ import annotations

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
    "table_changes.py": "the tables in a schema change",
    "templates.py": "shapes for the kernel's encoder",
    "types.py": "column types",
    "values.py": "one column value, both ways",
    "values": "the same, in a folder",
}
# Names for what one protocol alone has.
OWN = {
    "canal-json": {"text.py"},
    "debezium-mysql": {
        "fitting.py", "foreign.py", "foreign_shapes.py", "headers.py", "notices.py", "unwrapped.py", "whole_columns.py"
    },
    "tencent-dts": {"grouping.py", "messages.py", "routing.py", "rules.py"},
    "ticdc-avro": {"checksum.py", "schema_text.py", "schemas.py"},
    "ticdc-debezium": {"actions.py", "defaults.py", "parts.py", "schema.py", "times.py"},
    "ticdc-open": {"columns.py", "partial.py"},
}  # fmt: skip


def files(name: str) -> set[str]:
    return {path.name for path in folder(name).iterdir()} - {"__pycache__", "vectors"}


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_a_folder_has_the_files_that_all_protocols_have(name: str) -> None:
    assert files(name) >= REQUIRED
    assert (folder(name) / "vectors").is_dir()


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_a_folder_has_no_other_file_names(name: str) -> None:
    assert files(name) - REQUIRED - SHARED.keys() == OWN.get(name, set())


def test_a_name_of_one_protocol_alone_is_not_used_by_a_second_one() -> None:
    assert {name: others for name in OWN if (others := set().union(*map(files, OWN.keys() - {name})) & OWN[name])} == {}


def test_a_shared_name_is_used_by_two_protocols() -> None:
    users = {name: [protocol for protocol in PROTOCOLS if name in files(protocol)] for name in SHARED}
    users["values.py"] += users.pop("values")
    assert {name for name, protocols in users.items() if len(protocols) < 2} == set()
