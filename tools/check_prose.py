#!/usr/bin/env python3
"""Plain English: `check_prose.py` prints the phrases and names that this project does not use, and exits with 1 if there are any.

Rule 1. Pages, docstrings, comments, messages and names of tests contain none of PHRASES.
Rule 2. The first line of a docstring has a verb or a noun: it does not open with one of OPENINGS and does not repeat the name.
Rule 3. A name is not one of NAMES, and no part of it is one of PARTS. TERMS lists folders in which a name is the usual term.
        Constants are names, too: `_SAID` is the name `said`.
Rule 4. docs/glossary.md lists the same names.
Rule 5. `check_prose.py --subject FILE`, as a hook `commit-msg` calls it: the first line of a commit message has at most 72
        characters, no period at its end and no number of an issue, and begins with a verb in the imperative.

A line may keep its words for a reason: `# prose: REASON` at its end, in pages `<!-- prose: REASON -->`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = Path("docs/glossary.md")

# What is wrong, and what to write.
PHRASES: dict[str, str] = {
    r"(?<!\bthere )\b(?:is|are|was|were) no (?!longer\b|more\b|different\b|\w+er\b)[\w{'`]": "is not a …, or: has no …",
    r"\b(?:is|be|not|as|of|with|in|for|to|by|from|than|like|has) a [`'\"]?(?:[aeio](?!ne\b|nce\b|ne-)|un(?!i))\w+": (
        "an"
    ),
    r"\b(?:is|be|not|as|of|with|in|for|to|by|from|than|like|has) an [`'\"]?(?:[bcdfgjkpqtvwyz][aeiou]|uni|one\b)\w*": "a",
    r"\b(?:told|tells)\b": "declares, contains, names, reports, distinguishes",
    r"\b(?:said|says)\b": "declares, contains, names, reports, shows",
    r"\b(?:knows|knew|hears|heard|speaks|spoken)\b": "has, contains, supports, receives",
    r"\bof ours\b": "of this project, or the thing's name",
    r"\bof today\b": "current",
    r"\belsewhere\b": "name the place",
    r"\banew\b": "again",
    r"\b(?:is|are|was) beyond\b|\bbeyond the\b": "outside, after, more than, not supported",
    r"\bas one likes\b": "in any order",
    r"\bthere is but\b": "there is only",
    r"\bNone for nothing\b": "None if empty",
    r"\bwho(?:so)?ever\b": "name the person or the part",
    r"\b(?:its|their|our) business\b": "name the part that handles it",
    r"\bnobody's\b": "not used",
    r"\bwhose turn\b": "who has to act",
}

# First words of a docstring that make it a clause without its noun.
OPENINGS = ("What", "Who", "Whoever", "Whose", "Whom", "How", "Of", "As", "From", "Where", "Which", "Whence")

# A name, and what to write: what the value holds, or the term of docs/glossary.md.
NAMES: dict[str, str] = {
    "found": "what it holds: `tables`, `schema`, `match`",
    "said": "what it holds: `fields`, `statement`, `message`",
    "told": "`declared`, `reported`, `inferred`",
    "given": "what it holds: `options`, `value`",
    "here": "what it holds: `table`, `current`",
    "odd": "`unmatched`; `fallback` for the path",
    "taught": "`registered`",
    "learn": "`register`",
    "beyond": "`unsupported`, or what lies there",
    "lane": "`partition`, `stream`",
    "rests": "`requires`",
    "as_read": "`verbatim`",
    "self_telling": "`self_describing`",
    "everywhere": "`broadcast`",
    "elsewhere": "`foreign`",
    "stamp": "`write_id`",
    "token": "`source_offset`, or what it holds",
    "reach": "`frontier`",
    "horizon": "`frontier`",
    "manner": "`encoding`, `representation`",
    "drained": "`caught_up`",
    "settled": "`idle`",
    "spoken": "`capabilities`",
    "end_to_end": "`column_of_tables`",
    "of_records": "`events_of`",
}
PARTS = ("said", "told", "taught", "lane", "elsewhere")
TERMS: dict[str, tuple[str, ...]] = {
    "src/changefeed/mysql/ddl": ("token",),  # of a lexer
}

_PHRASES = [(re.compile(pattern, re.IGNORECASE), advice) for pattern, advice in PHRASES.items()]
_ANY_PHRASE = re.compile("|".join(PHRASES), re.IGNORECASE)
_OPENING = re.compile(rf"(?:{'|'.join(OPENINGS)})\b")
_NAME = re.compile(
    rf"(?<![.\w])(?:self\.|cls\.)?((?!test_)(?:{'|'.join(NAMES)}|(?:\w+_)?(?:{'|'.join(PARTS)})(?:_\w+)?))(?![\w=])"
)
_CONSTANT = re.compile(r"^ *_?([A-Z][A-Z_]*)(?: *:[^=\n]*)? *=(?!=)", re.MULTILINE)
_SUBJECT = 72  # characters
_NO_VERB = re.compile(
    r"(?!Bring|String|Ping)(?:The|An?|No|Not|All|Each|What|How|When|Why|If|[A-Z]\w+(?:ing|ed))\b|[^A-Z]"
)
_ALLOWED = re.compile(r"(?:#|<!--) prose: \w")
# Strings and comments: the only places of a module where prose is.
_TEXT = re.compile(
    r"""[rR]?[fFbB]?[rR]?(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|\#[^\n]*""",
    re.DOTALL,
)
_TEST = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| `([a-z_]+)` \| (.+?) \|$", re.MULTILINE)

Finding = tuple[int, str]
"""Line, message."""


def main() -> int:
    """Prints the findings on stderr; exit code 1 if there are any."""
    if sys.argv[1:2] == ["--subject"]:
        findings = list(subject(Path(sys.argv[2]).read_text(encoding="utf-8").partition("\n")[0]))
    else:
        findings = [*unclean(), *glossary()]
    for finding in findings:
        print(finding, file=sys.stderr)
    return 1 if findings else 0


def unclean() -> Iterator[str]:
    """Rules 1, 2 and 3."""
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        for line, message in findings_in(name, path.read_text(encoding="utf-8")):
            yield f"{name}:{line}: {message}"


def files() -> Iterator[Path]:
    """Every page and every module, but not those that quote what is forbidden."""
    for folder in ("src", "tests", "tools", "bench", "examples", "docs"):
        for suffix in ("py", "md"):
            paths = sorted((ROOT / folder).rglob(f"*.{suffix}"))
            yield from (
                path for path in paths if path.name not in ("check_prose.py", "test_check_prose.py", "glossary.md")
            )
    yield from sorted(ROOT.glob("*.md"))


def findings_in(name: str, text: str) -> Iterator[Finding]:
    """The findings of a page or a Python file, by its name."""
    if name.endswith(".md"):
        prose = _FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
        yield from phrases(prose, 0, len(prose))
        return
    for part in _TEXT.finditer(text):
        yield from phrases(text, part.start(), part.end())
        if part[0].startswith('"""'):
            yield from docstring(text, part)
    for test in _TEST.finditer(text):
        yield from ((_line(text, test.start()), message) for _, message in phrases(test[1].replace("_", " "), 0))
    terms = TERMS.get(name.rpartition("/")[0], ())
    yield from (finding for finding in names(text) if finding[1].split()[1].lower() not in terms)


def phrases(text: str, start: int, end: int = 1 << 30) -> Iterator[Finding]:
    """The findings of Rule 1 between two places of a text."""
    for match in _ANY_PHRASE.finditer(text, start, end):
        if not _allowed(text, match.start(), end):
            advice = next(advice for pattern, advice in _PHRASES if pattern.match(text, match.start()))
            yield _line(text, match.start()), f"{match[0]!r} -> {advice}"


def docstring(text: str, part: re.Match[str]) -> Iterator[Finding]:
    """The findings of Rule 2, if a string in triple quotes is a docstring."""
    before = text[: part.start()]
    if before.strip() and not (before.rstrip().endswith(":") and before.endswith("    ")):
        return
    if _allowed(text, part.start(), part.end()):
        return
    first, line = part[0].strip('"').strip().partition("\n")[0], _line(text, part.start())
    if opening := _OPENING.match(first):
        yield line, f"docstring opens with {opening[0]!r} -> a verb phrase, or a noun with what it is"
    defined = re.findall(r"(?:def|class) (\w+)", before[-600:])
    if defined and _words(first) == _words(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", defined[-1])):
        yield line, f"docstring repeats the name {defined[-1]} -> the result, or what it is for"


def names(text: str) -> Iterator[Finding]:
    """The findings of Rule 3, at the first place of each name. Names that are imported belong to their own file."""
    code = _TEXT.sub(lambda part: "\n" * part[0].count("\n") or " ", text)
    seen = set(re.findall(r"\w+", " ".join(re.findall(r"import (\([^)]*\)|[^\n]*)", code))))
    for name in _NAME.finditer(code):
        line = _line(code, name.start())
        if name[1] in seen:
            continue
        seen.add(name[1])
        if not _ALLOWED.search(text.split("\n", line)[line - 1]):
            word = name[1] if name[1] in NAMES else next(p for p in PARTS if p in name[1].split("_"))
            yield line, f"name {name[1]} -> {NAMES[word]}"
    for name in _CONSTANT.finditer(code):
        words, line = name[1].lower().rstrip("_").split("_"), _line(code, name.start(1))
        match = next((word for word in words if word in PARTS), "_".join(words) if "_".join(words) in NAMES else None)
        if match and not _ALLOWED.search(text.split("\n", line)[line - 1]):
            yield line, f"name {name[1]} -> {NAMES[match]}"


def subject(text: str) -> Iterator[str]:
    """The findings of Rule 5 in the first line of a commit message."""
    if len(text) > _SUBJECT:
        yield f"subject has {len(text)} characters -> at most {_SUBJECT}"
    if text.endswith("."):
        yield "subject ends with a period -> none"
    if re.search(r"#\d", text):
        yield "subject has the number of an issue -> what the commit does"
    if _NO_VERB.match(text):
        yield f"subject begins with {text.partition(' ')[0]!r} -> a verb in the imperative: Add, Keep, Read"


def glossary() -> Iterator[str]:
    """Rule 4."""
    path = ROOT / GLOSSARY
    listed = dict(_ROW.findall(path.read_text(encoding="utf-8"))) if path.exists() else {}
    for name in NAMES:
        if listed.get(name) != NAMES[name]:
            yield f"{GLOSSARY}: write the row | `{name}` | {NAMES[name]} |"
    for name in sorted(listed.keys() - NAMES.keys()):
        yield f"{GLOSSARY}: `{name}` is not in NAMES of tools/check_prose.py"


def _allowed(text: str, start: int, end: int) -> bool:
    """Whether a reason stands at the end of the line, or behind the string that it belongs to."""
    line = text[start : text.find("\n", start) % (len(text) + 1)]
    last = text[min(end, len(text)) :].partition("\n")[0]
    return bool(_ALLOWED.search(line) or _ALLOWED.search(last))


def _words(text: str) -> set[str]:
    words = re.findall(r"[a-z]+", text.lower().replace("_", " "))
    return {word.removesuffix("s") for word in words if word not in ("a", "an", "the", "of")}


def _line(text: str, start: int) -> int:
    return text.count("\n", 0, start) + 1


if __name__ == "__main__":
    sys.exit(main())
