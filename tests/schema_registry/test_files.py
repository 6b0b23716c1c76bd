"""Schemas in files, for use without a schema registry."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from changefeed.errors import SchemaRegistryError
from changefeed.protocols.base import RegistryOptions
from changefeed.schema_registry import connect
from changefeed.schema_registry.files import Files

NO_LIST = "expected a list of {id, subject, schema}, the id a number, the others strings"


def listed(*entries: tuple[int, str, str]) -> str:
    return json.dumps([{"id": number, "subject": subject, "schema": schema} for number, subject, schema in entries])


def test_schemas_are_found_by_id_and_ids_by_subject_and_text(tmp_path: Path) -> None:
    file = tmp_path / "shop.schemas.json"
    file.write_text(listed((5, "a-key", '"int"'), (6, "a-value", '"long"'), (7, "b-value", '"long"')))
    schemas = Files(str(file))
    assert [schemas.get(5), schemas.get(7)] == ['"int"', '"long"']
    assert schemas.register("b-value", '"long"') == 7
    assert schemas.register("c-value", '"long"') == 6  # one text is one schema, under any subject
    assert json.loads(file.read_text())[-1]["id"] == 7


def test_a_new_schema_gets_the_next_id_and_is_written_down(tmp_path: Path) -> None:
    file = tmp_path / "new.json"
    schemas = Files(str(file))
    assert [schemas.register("a-key", '"int"'), schemas.register("a-value", '"é"')] == [1, 2]
    assert Files(str(file)).get(2) == '"é"'
    assert [path.name for path in tmp_path.iterdir()] == ["new.json"]


def test_a_folder_is_all_its_files_and_takes_new_schemas(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(listed((1, "a", '"int"')))
    (tmp_path / "b.json").write_text(listed((9, "b", '"long"')))
    schemas = Files(str(tmp_path))
    assert [schemas.get(9), schemas.register("c", '"bytes"'), schemas.register("d", '"string"')] == ['"long"', 10, 11]
    assert [entry["id"] for entry in json.loads((tmp_path / "registered.json").read_text())] == [10, 11]


def test_an_id_that_is_added_later_is_found(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(listed((1, "a", '"int"')))
    schemas = Files(str(file))
    with pytest.raises(LookupError) as caught:
        schemas.get(2)
    assert str(caught.value) == f"{file} has no schema 2"
    file.write_text(listed((1, "a", '"int"'), (2, "a", '"long"')))
    os.utime(file, ns=(1, 1))
    assert schemas.get(2) == '"long"'


@pytest.mark.parametrize(
    "text, error",
    [
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("{}", NO_LIST),
        ('[{"id":"1","subject":"a","schema":"b"}]', NO_LIST),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str, error: str) -> None:
    file = tmp_path / "s.json"
    file.write_text(text)
    with pytest.raises(SchemaRegistryError) as caught:
        Files(str(file)).get(1)
    assert (str(caught.value), caught.value.transient) == (f"schema registry {file}: {error}", False)


def test_two_schemas_with_one_id_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(listed((1, "a", '"int"'), (1, "b", '"long"')))
    with pytest.raises(SchemaRegistryError) as caught:
        Files(str(file)).get(1)
    assert str(caught.value) == f"schema registry {file}: two schemas have the id 1"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchemaRegistryError) as caught:
        Files(str(tmp_path / "none.json")).get(1)
    assert str(caught.value) == f"schema registry {tmp_path}/none.json: No such file or directory"


def test_a_path_may_be_a_url(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(listed((1, "a", '"int"')))
    for where in (f"{tmp_path}/s.json", f"file://{tmp_path}/s.json"):
        assert connect(where, RegistryOptions())[0](1) == '"int"'
