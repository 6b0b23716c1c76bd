#!/usr/bin/env python3
"""Checks the documentation: `check_docs.py` fails if it is wrong; `check_docs.py --write` writes the generated parts.

Rule 1. The pages under docs/reference are exactly those generated from the code (reference_pages.py). So are the tables of
        other pages between `<!-- made: NAME -->` and `<!-- end -->`.
Rule 2. Every command, option, definition field and error has a description; so does every reason of a dead letter.
Rule 3. The README names every source and sink; every protocol has its README.
Rule 4. The target of a link exists, file and heading; every page can be reached from docs/README.md. A link to a decision has
        the decision's number.
Rule 5. The commands and options that a page shows exist.
Rule 6. So do the files that a page names by folder and file; decisions keep the names of their day.
Rule 7. So do the messages that a page quotes in a table of troubles, or as a line `error: …`. A page has names where the code has
        values, so half of the word triples of a message suffice.
Rule 8. The README of a protocol has all of its options, with their defaults. The schema registry's may be one row.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from changefeed import errors
from changefeed.pipeline.config.definition import Definition
from changefeed.protocols import PROTOCOLS, protocol
from changefeed.protocols.base import RegistryOptions
from changefeed.sinks import SINKS
from changefeed.sources import SOURCES
from tools import reference_pages as reference

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_DECISION = re.compile(r"\[decision\s+(\d+)\]\((?:[^)\s]*/)?(\d{4})-")
_MADE = re.compile(r"(?<=made: )([a-z]+)( -->\n\n)(.*?)(?=\n<!-- end -->)", re.DOTALL)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_SHOWN = re.compile(
    r"^(?:\$ )?changefeed ((?:[a-z]+(?![\w.]) ?)+)(.*)|`changefeed ((?:[a-z]+(?![\w.]) ?)+)([^`]*)`", re.MULTILINE
)
_FILE = re.compile(r"`((?:\w+/)+\w+\.(?:py|rs))`")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_TABLE = r"^\| (?:%s) \|.*\n\|[-|]+\n((?:\|.*\n)+)"
_TROUBLES = re.compile(_TABLE % "you see|message|the run ended with|`changefeed run` prints", re.MULTILINE)
_QUOTED = re.compile(r"``(.+?)``|`([^`]+)`")
_ERROR = re.compile(r"^error: (.+)$", re.MULTILINE)
_OPTIONS = re.compile(_TABLE % r"option \| default", re.MULTILINE)
_OPTION = re.compile(r"^\| `([^`]+)`(.*?) \| (\S+) \|", re.MULTILINE)


def main(args: list[str]) -> int:
    """Prints the problems on stderr; exit code 1 if there are any."""
    if args == ["--write"]:
        write()
    elif args:
        print("usage: check_docs.py [--write]", file=sys.stderr)
        return 2
    checks = (
        stale,
        undescribed,
        unlisted,
        broken_links,
        unreachable,
        misnamed,
        missing_files,
        unknown_messages,
        wrong_defaults,
    )
    problems = [problem for check in checks for problem in check()]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def write() -> None:
    """Writes the reference pages and the tables, and removes reference pages that are no longer generated."""
    REFERENCE.mkdir(parents=True, exist_ok=True)
    wanted = reference.pages()
    for path in REFERENCE.iterdir():
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
    for page in documents():
        text = page.read_text(encoding="utf-8")
        if (now := with_tables(text)) != text:
            page.write_text(now, encoding="utf-8")


def with_tables(text: str) -> str:
    """Returns the text of a page with newly generated tables."""
    return _MADE.sub(lambda match: match[1] + match[2] + reference.TABLES[match[1]](), text)


def stale() -> Iterator[str]:
    """Rule 1."""
    wanted = reference.pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.iterdir()} if REFERENCE.exists() else {}
    for name in sorted(wanted.keys() | there.keys()):
        if wanted.get(name) != there.get(name):
            what = "is missing" if name not in there else "is not generated" if name not in wanted else "is stale"
            yield f"docs/reference/{name} {what}: run tools/check_docs.py --write"
    for page in documents():
        text = page.read_text(encoding="utf-8")
        if with_tables(text) != text:
            yield f"{page.relative_to(ROOT)} has a stale table: run tools/check_docs.py --write"


def undescribed() -> Iterator[str]:
    """Rule 2."""
    for name, command in reference.commands():
        if not command.help:
            yield f"changefeed {name} has no help"
        options = [p for p in command.params if isinstance(p, click.Option)]
        yield from (f"changefeed {name} {o.opts[0]} has no help" for o in options if not o.help)
    for name in PROTOCOLS:
        text = reference.options(name)
        yield from (
            f"{name}: option {o} has no description" for o in re.findall(r"^\| `([^`]+)` \|  \|", text, re.MULTILINE)
        )
    for model, described in Definition.model_json_schema(by_alias=True)["$defs"].items():
        fields = described["properties"].items()
        yield from (f"{model}.{n} has no description" for n, f in fields if n != "type" and not f.get("description"))
    tree = inspect.getdoc(errors) or ""
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.ChangefeedError) and not name.startswith("_") and name not in tree:
            yield f"errors.{name} is not in the tree at the top of errors.py"
    for reason in sorted(reference.reasons_in_code() ^ reference.reasons().keys()):
        yield (
            f"dead letter reason {reason!r} is in the code, or in REASONS of tools/reference_pages.py and `reasons` of the "
            "protocols, but not in both"
        )


def unlisted() -> Iterator[str]:
    """Rule 3."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for kind, names in (("source", SOURCES), ("sink", SINKS)):
        yield from (f"README.md does not name the {kind} `{n}`" for n in names if f"`{n}`" not in readme)
    for name in PROTOCOLS:
        folder = Path(inspect.getfile(protocol(name).options)).parent
        if not (folder / "README.md").exists():
            yield f"protocol {name} has no README.md in its folder"


def documents() -> list[Path]:
    """Every page that people read."""
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted([*pages, *(ROOT / "src").rglob("README.md")])


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """The relative links of a page: as written, the file they lead to, the heading."""
    for link in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if "://" not in link:
            target, _, heading = link.partition("#")
            yield link, (page.parent / target).resolve() if target else page, heading


def broken_links() -> Iterator[str]:
    """Rule 4, links."""
    for page in documents():
        for link, target, heading in links(page):
            if not target.exists():
                yield f"{page.relative_to(ROOT)}: {link} leads nowhere"
            elif heading and heading not in headings(target):
                yield f"{page.relative_to(ROOT)}: {link}: no such heading"
        for number, of_file in _DECISION.findall(page.read_text(encoding="utf-8")):
            if int(number) != int(of_file):
                yield f"{page.relative_to(ROOT)}: a link to decision {int(of_file)} is called decision {number}"


def headings(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    titles = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in titles}


def unreachable() -> Iterator[str]:
    """Rule 4, pages."""
    seen, waiting = set(), [DOCS / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in seen and page.suffix == ".md" and page.exists():
            seen.add(page)
            waiting += [target for _, target, _ in links(page)]
    yield from (
        f"{page.relative_to(ROOT)} cannot be reached from docs/README.md"
        for page in sorted({*DOCS.rglob("*.md")} - seen)
    )


def misnamed() -> Iterator[str]:
    """Rule 5."""
    known = {name: {o for p in command.params for o in p.opts} for name, command in reference.commands()}
    for page in documents():
        for shown in _SHOWN.findall(page.read_text(encoding="utf-8")):
            words, rest = (shown[0], shown[1]) if shown[0] else (shown[2], shown[3])
            name = next((n for n in known if f"{words} ".startswith(f"{n} ")), None)
            if name is None and not any(n.startswith(words.strip()) for n in known):
                yield f"{page.relative_to(ROOT)}: there is no command changefeed {words.strip()}"
            unknown = set(re.findall(r"(?<=\s)--?[a-zA-Z][\w-]*", f" {rest.partition('|')[0].partition('#')[0]}"))
            for option in sorted(unknown - known.get(name or "", unknown)):
                yield f"{page.relative_to(ROOT)}: changefeed {name} has no option {option}"


def missing_files() -> Iterator[str]:
    """Rule 6."""
    folders = ("src", "tests", "tools", "bench", "examples", "deploy", "kernel/src")
    paths = [f"/{path.relative_to(ROOT)}" for folder in folders for path in (ROOT / folder).rglob("*.[pr][ys]")]
    for page in documents():
        if DOCS / "decisions" not in page.parents:
            for name in sorted(set(_FILE.findall(page.read_text(encoding="utf-8")))):
                if not any(path.endswith(f"/{name}") for path in paths):
                    yield f"{page.relative_to(ROOT)}: there is no file {name}"


def unknown_messages() -> Iterator[str]:
    """Rule 7."""
    known = {triple for text in _texts_in_code() for triple in _triples(text)}
    for page in documents():
        text = page.read_text(encoding="utf-8")
        cells = [row.split(" | ")[0] for rows in _TROUBLES.findall(text) for row in rows.splitlines()]
        quoted = ["".join(groups) for cell in cells for groups in _QUOTED.findall(cell)]
        for message in [*quoted, *_ERROR.findall(text)]:
            triples = _triples(message.removeprefix("error: "))
            if len(triples) > 1 and 2 * len(triples & known) < len(triples):
                yield f"{page.relative_to(ROOT)}: no message of the code is like: {message}"


def _texts_in_code() -> Iterator[str]:
    """Yields all texts of changefeed, with a 0 in place of each value."""
    for path in reference.SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else " 0 " for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _triples(text: str) -> set[tuple[str, ...]]:
    """The words of a text, by threes that nothing but white space separates."""
    words = re.findall(r"[a-z'-]+|[^a-z'\s-]+", text.lower())
    threes = zip(words, words[1:], words[2:], strict=False)
    return {three for three in threes if all(word[0].isalpha() for word in three)}


def wrong_defaults() -> Iterator[str]:
    """Rule 8."""
    for name in PROTOCOLS:
        page = Path(inspect.getfile(protocol(name).options)).parent / "README.md"
        shown = _OPTION.findall("".join(_OPTIONS.findall(page.read_text(encoding="utf-8"))))
        defaults = reference.defaults(name)
        if ("schema-registry", " and its options", "–") in shown:
            defaults = {o: d for o, d in defaults.items() if o not in RegistryOptions.__struct_encode_fields__[1:]}
        values = {option: "" if value == "–" else value for option, _, value in shown}
        for option in sorted(values.keys() ^ defaults.keys()):
            yield f"{page.parent.name}/README.md: option {option} is {'missing' if option in defaults else 'unknown'}"
        for option in sorted(values.keys() & defaults.keys()):
            if values[option] != defaults[option].replace("`[]`", ""):
                yield f"{page.parent.name}/README.md: {option} has the default {defaults[option]}, not {values[option]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
