"""The documentation matches the code, and its check notices differences."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from changefeed.cli import COMMANDS
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.load import read_any
from changefeed.protocols import PROTOCOLS
from tools import check_docs, reference_pages


def test_the_documentation_matches_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert (check_docs.main([]), capsys.readouterr().err) == (0, "")


def test_every_command_and_protocol_has_its_page() -> None:
    cli = (check_docs.REFERENCE / "cli.md").read_text()
    assert [name for name in COMMANDS if f"\n## {name}" not in cli] == []
    assert [name for name in PROTOCOLS if not (check_docs.REFERENCE / f"options-{name}.md").exists()] == []


def test_the_schema_for_editors_takes_a_protocol_by_its_name() -> None:
    schema = json.loads((check_docs.REFERENCE / "pipeline.schema.json").read_text())
    assert (
        schema["$defs"]["Definition"]["properties"].keys()
        == {"source", "sink", "ledger", "pipeline", "spark", "storage"}
        == Definition.model_fields.keys()
    )
    for source in ("FilesSource", "KafkaSource"):
        assert {"type": "string"} in schema["$defs"][source]["properties"]["protocol"]["anyOf"]


def test_the_schema_for_editors_takes_both_kinds_of_pipelines() -> None:
    schema = json.loads((check_docs.REFERENCE / "pipeline.schema.json").read_text())
    source, pipeline = {"type": "mysql", "host": "db", "user": "u"}, {"name": "p", "folder": "p"}
    for sink in (
        {"type": "delta", "path": "lake"},
        {"type": "kafka", "servers": "b:9092", "topic": "t", "protocol": "debezium-mysql"},
    ):
        definition = {"source": source, "sink": sink, "pipeline": pipeline}
        read_any(definition)
        jsonschema.validate(definition, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"source": source, "sink": {"type": "kafka"}, "pipeline": {}}, schema)


def test_the_schema_for_editors_takes_the_uri_of_a_changefeed() -> None:
    schema = json.loads((check_docs.REFERENCE / "pipeline.schema.json").read_text())
    assert {"$ref": "#/$defs/UriSource"} in schema["$defs"]["Definition"]["properties"]["source"]["anyOf"]
    assert schema["$defs"]["UriSource"]["required"] == ["uri"]
    sections = {"source": {"uri": "kafka://b:9092/shop?protocol=open-protocol", "starting-offsets": "latest"}}
    read = Definition.model_validate({**sections, "sink": {"type": "delta", "path": "lake"}})
    assert read.source.model_dump(include={"topics", "starting_offsets"}) == {
        "topics": ["shop"],
        "starting_offsets": "latest",
    }


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the pages, which tests may change."""
    shutil.copytree(check_docs.DOCS, tmp_path / "docs")
    for name in ("src", "examples"):
        (tmp_path / name).mkdir()
    for page in check_docs.ROOT.glob("*.md"):
        shutil.copy(page, tmp_path)
    monkeypatch.setattr(check_docs, "ROOT", tmp_path)
    monkeypatch.setattr(check_docs, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(check_docs, "REFERENCE", tmp_path / "docs" / "reference")
    return tmp_path


def test_a_page_that_differs_from_the_code_is_reported_and_rewritten(copy: Path) -> None:
    pages = copy / "docs" / "reference"
    (pages / "types.md").write_text("guessed")
    (pages / "errors.md").unlink()
    (pages / "metrics.md").write_text("")
    advice = "run tools/check_docs.py --write"
    assert list(check_docs.stale()) == [
        f"docs/reference/errors.md is missing: {advice}",
        f"docs/reference/metrics.md is not generated: {advice}",
        f"docs/reference/types.md is stale: {advice}",
    ]
    check_docs.write()
    assert list(check_docs.stale()) == []


def test_a_table_of_protocols_that_differs_from_the_code_is_reported_and_rewritten(copy: Path) -> None:
    readme = copy / "README.md"
    whole = readme.read_text()
    readme.write_text(whole.replace("[`tencent-dts`]", "[`tencent`]"))
    assert list(check_docs.stale()) == ["README.md has a stale table: run tools/check_docs.py --write"]
    check_docs.write()
    assert readme.read_text() == whole


def test_every_protocol_is_in_the_readme() -> None:
    readme = (check_docs.ROOT / "README.md").read_text()
    assert [name for name in PROTOCOLS if f"[`{name}`]" not in readme] == []


def test_broken_links_are_reported(copy: Path) -> None:
    (copy / "NEWS.md").write_text(
        "# News\n[a](docs/no.md) [b](#news) [c](#olds) [d](https://example.org)\n```\n[e](f)\n```\n"
    )
    assert [finding for finding in check_docs.broken_links() if "NEWS" in finding] == [
        "NEWS.md: docs/no.md leads nowhere",
        "NEWS.md: #olds: no such heading",
    ]


def test_files_that_are_gone_are_reported(copy: Path) -> None:
    (copy / "src" / "flow.py").touch()
    (copy / "NEWS.md").write_text("`src/flow.py`, `flow.py` and `pipeline/flow.py`")
    (copy / "docs" / "decisions" / "0001-old.md").write_text("`pipeline/gone.py`")
    findings = [finding for finding in check_docs.missing_files() if "NEWS" in finding or "0001-old" in finding]
    assert findings == ["NEWS.md: there is no file pipeline/flow.py"]


def test_a_page_without_links_to_it_is_reported(copy: Path) -> None:
    (copy / "docs" / "guides" / "lost.md").write_text("# Lost")
    assert list(check_docs.unreachable()) == ["docs/guides/lost.md cannot be reached from docs/README.md"]


@pytest.mark.parametrize(
    "text, complaints",
    [
        ("`changefeed decode LOG --protocol P -o a=b`", []),
        (
            "```sh\nchangefeed decode LOG --protokoll P  # --comment\n```",
            ["changefeed decode has no option --protokoll"],
        ),
        ("```console\n$ changefeed undo it\n```", ["there is no command changefeed undo it"]),
        ("changefeed applies what it reads, in a sentence", []),
    ],
)
def test_unknown_commands_are_reported(text: str, complaints: list[str], copy: Path) -> None:
    (copy / "NEWS.md").write_text(f"Seen:\n\n{text}\n" if "```" in text else f"Seen: {text}\n")
    assert [finding for finding in check_docs.misnamed() if "NEWS" in finding] == [f"NEWS.md: {c}" for c in complaints]


def test_a_message_that_the_code_does_not_have_is_reported(copy: Path) -> None:
    rows = ["`it has 3 files of 9 bytes, …`", "`the ledger of the moon has set …`", "`shop.orders …`"]
    table = "\n".join(
        ["| you see | do this |", "|---|---|", *(f"| {row} | `nothing that the code shows` |" for row in rows)]
    )
    (copy / "NEWS.md").write_text(
        f"{table}\n\n```\nerror: lake: the table is gone. …\nerror: the tables are all gone\n```\n"
    )
    assert [finding for finding in check_docs.unknown_messages() if "NEWS" in finding] == [
        "NEWS.md: no message of the code is like: the ledger of the moon has set …",
        "NEWS.md: no message of the code is like: the tables are all gone",
    ]


def test_a_default_that_the_code_does_not_have_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = reference_pages.defaults
    monkeypatch.setattr(
        reference_pages,
        "defaults",
        lambda name: defaults(name) | {"profile": "`later`", "a": ""} if "open" in name else defaults(name),
    )
    assert list(check_docs.wrong_defaults()) == [
        "ticdc_open/README.md: option a is missing",
        "ticdc_open/README.md: profile has the default `later`, not `newarch`",
    ]


def test_a_reason_without_a_meaning_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(reference_pages.REASONS, "truncated")
    assert list(check_docs.undescribed()) == [
        "dead letter reason 'truncated' is in the code, or in REASONS of tools/reference_pages.py and `reasons` of the "
        "protocols, but not in both"
    ]


def test_a_source_that_the_readme_does_not_name_is_reported(copy: Path) -> None:
    readme = copy / "README.md"
    readme.write_text(readme.read_text().replace("`kafka`", ""))
    assert list(check_docs.unlisted()) == ["README.md does not name the source `kafka`"]
