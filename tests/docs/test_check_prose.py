"""The language of the project is checked, and the check finds what it forbids."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tools import check_prose


@pytest.mark.heavy
def test_the_project_is_in_plain_english(capsys: pytest.CaptureFixture[str]) -> None:
    assert (check_prose.main(), capsys.readouterr().err) == (0, "")


@pytest.mark.parametrize(
    "line, message",
    [
        ("x = f'{x!r} is no decimal'", "'is no d' -> is not a …, or: has no …"),
        ("x = f'{x!r} is no {kind}'", "'is no {' -> is not a …, or: has no …"),
        ("x = 'the value is not a int'", "'not a int' -> an"),
        ("x = 'a text of an kind'", "'of an kind' -> a"),
        ("x = 1  # the record says", "'says' -> declares, contains, names, reports, shows"),
        ("x = 1  # what a row told", "'told' -> declares, contains, names, reports, distinguishes"),
        ("x = 1  # columns of ours", "'of ours' -> of this project, or the thing's name"),
        ("def test_it_is_written_anew(): ...", "'anew' -> again"),
        ("found = read()", "name found -> what it holds: `tables`, `schema`, `match`"),
        ("self.drained = 1", "name drained -> `caught_up`"),
        ("for said, other in rows: ...", "name said -> what it holds: `fields`, `statement`, `message`"),
        ("def f(told_by: str): ...", "name told_by -> `declared`, `reported`, `inferred`"),
        ("_SAID = 1", "name SAID -> what it holds: `fields`, `statement`, `message`"),
        ("    _NOT_TOLD_TYPES: dict[str, str] = {}", "name NOT_TOLD_TYPES -> `declared`, `reported`, `inferred`"),
        ("rows = end_to_end(tables)", "name end_to_end -> `column_of_tables`"),
    ],
)
def test_forbidden_words_are_findings(line: str, message: str) -> None:
    assert next(check_prose.findings_in("x.py", f"\n{line}\n")) == (2, message)


@pytest.mark.parametrize(
    "line",
    [
        "x = 'there is no file'",
        "x = 'the record is no longer there, which is no larger than one of a UUID or of an hour'",
        "x = 'CREATE TABLE t (a INT)'",
        "x = 'is no decimal'  # prose: the words of another program",
        "x = 1  # what a row told  # prose: a quotation",
        "read(found=1)",
        "other.found = other.drained",
        "from other import found\nx = found",
        "# fonud, a list of foundations",
    ],
)
def test_other_words_are_not(line: str) -> None:
    assert list(check_prose.findings_in("x.py", line)) == []


@pytest.mark.parametrize(
    "docstring, message",
    [
        ("What a row has.", "docstring opens with 'What' -> a verb phrase, or a noun with what it is"),
        ("From text to values.", "docstring opens with 'From' -> a verb phrase, or a noun with what it is"),
        ("Reads a file.", "docstring repeats the name read_file -> the result, or what it is for"),
    ],
)
def test_first_lines_of_docstrings_have_a_noun_or_a_verb(docstring: str, message: str) -> None:
    text = f'def read_file() -> str:\n    """{docstring}"""\n'
    assert list(check_prose.findings_in("x.py", text)) == [(2, message)]
    assert list(check_prose.findings_in("x.py", text.replace(docstring, "The text of the file at `path`."))) == []


def test_blocks_of_a_page_are_not_prose() -> None:
    page = "# Page\n```\nis no text\n```\nis no text\nis no text <!-- prose: an example -->\n"
    assert list(check_prose.findings_in("x.md", page)) == [(5, "'is no t' -> is not a …, or: has no …")]


def test_a_finding_has_its_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/b.py").write_text("found = 1\n# is no text\n")
    monkeypatch.setattr(check_prose, "ROOT", tmp_path)
    assert list(check_prose.unclean()) == [
        "src/b.py:2: 'is no t' -> is not a …, or: has no …",
        "src/b.py:1: name found -> what it holds: `tables`, `schema`, `match`",
    ]


def test_the_glossary_has_the_names_of_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (check_prose.ROOT / check_prose.GLOSSARY).read_text()
    (tmp_path / "docs").mkdir()
    (tmp_path / check_prose.GLOSSARY).write_text(page.replace("| `odd` |", "| `even` |"))
    monkeypatch.setattr(check_prose, "ROOT", tmp_path)
    assert list(check_prose.glossary()) == [
        "docs/glossary.md: write the row | `odd` | `unmatched`; `fallback` for the path |",
        "docs/glossary.md: `even` is not in NAMES of tools/check_prose.py",
    ]


@pytest.mark.parametrize(
    "subject, messages",
    [
        ("Keep the table's definition after an op", []),
        ("Bring the columns back", []),
        ("Keep " + "x" * 68, ["subject has 73 characters -> at most 72"]),
        ("Keep the rows.", ["subject ends with a period -> none"]),
        ("Keep the rows (#12)", ["subject has the number of an issue -> what the commit does"]),
        ("The rows are kept", ["subject begins with 'The' -> a verb in the imperative: Add, Keep, Read"]),
        ("Added rows", ["subject begins with 'Added' -> a verb in the imperative: Add, Keep, Read"]),
        ("rows: keep them", ["subject begins with 'rows:' -> a verb in the imperative: Add, Keep, Read"]),
    ],
)
def test_a_commit_begins_with_what_it_does(
    subject: str,
    messages: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "message").write_text(f"{subject}\n\nThe reason.\n")
    monkeypatch.setattr("sys.argv", ["check_prose.py", "--subject", str(tmp_path / "message")])
    assert check_prose.main() == bool(messages)
    assert capsys.readouterr().err.splitlines() == messages


@pytest.mark.parametrize("subject, code", [("Keep the rows", 0), ("Rows are kept.", 1)])
def test_the_hook_of_commit_messages(subject: str, code: int, tmp_path: Path) -> None:
    """The hook as pre-commit runs it: at the root, with the file of the message as its last argument."""
    root = Path(__file__).parents[2]
    config = yaml.safe_load((root / ".pre-commit-config.yaml").read_text())
    [hook] = [one for one in config["repos"][0]["hooks"] if "commit-msg" in one.get("stages", config["default_stages"])]
    assert "commit-msg" in config["default_install_hook_types"]
    assert hook.get("pass_filenames", True)
    python, *arguments = shlex.split(hook["entry"])
    assert python == ".venv/bin/python"
    (tmp_path / "message").write_text(f"{subject}\n\nThe reason.\n")
    ran = subprocess.run(
        [sys.executable, *arguments, str(tmp_path / "message")], cwd=root, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr == "") == (code, code == 0)
