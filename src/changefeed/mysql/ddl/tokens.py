r"""The words of a MySQL statement, one at a time, and a place among them that only moves forward.

    `name`  "name"          name: quoted; a double-quoted text is a name where the grammar wants one (ANSI_QUOTES)
    'text'  "text"  N'text' text: '' and \x resolved
    x'41'  0x41  b'101'     bits
    12  1.5  2e3            number
    word  _utf8mb4  1c      word: keyword or plain name, a sign of which only the grammar can tell
    ( ) , ; = …             sign: any other printable character
    /*!40101 … */           executed by MySQL: read as if the comment signs were not there;
    /*T![x] … */ /*M! … */  so are TiDB's and MariaDB's
    -- …  # …  /* … */      nothing

The text is untrusted: it has at most `MAX_LENGTH` characters, words are read only as far as the grammar asks, no
pattern backtracks and nothing recurses. Whatever goes wrong is an UnsupportedError that shows the place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from changefeed.errors import UnsupportedError

MAX_LENGTH = 4 << 20
MAX_PARTS = 4096  # columns of a table, keys, changes in a statement: what MySQL and TiDB allow

_TOKEN = re.compile(
    r"""
      (?P<space>  \s++ | --(?=\s|\Z)[^\n]*+ | \#[^\n]*+ )
    | (?P<bits>   0x[0-9a-fA-F]++(?![\w$]) | 0b[01]++(?![\w$]) | [xX]'[0-9a-fA-F]*+' | [bB]'[01]*+' )
    | (?P<text>   [nN]?'(?:[^'\\]|\\.|'')*+' | "(?:[^"\\]|\\.|"")*+" )
    | (?P<name>   `(?:[^`]|``)*+` )
    | (?P<number> (?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?(?![\w$]) )
    | (?P<word>   [\w$\u0080-\U0010ffff]++ )
    | (?P<sign>   [(),.;=+\-*/<>@:!%&|^~?{}\[\]] )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_COMMENT = re.compile(r"/\*(?:!(\d{5,6})?|T!(?:\[[\w,]*\])?|M!(\d{5,6})?)?")
_ESCAPE = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_NOBODY = frozenset({"99999", "999999"})  # the version that no server reaches: a comment for all of them


@dataclass(frozen=True, slots=True)
class Token:
    """One word.

    Attributes:
        kind: `word`, `name`, `text`, `bits`, `number`, `sign`, or `end` behind the last.
        raw: as it stands in the statement.
        start, end: where it stands.
    """

    kind: str
    raw: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """A word or sign in upper case; "" for what cannot be a keyword."""
        return self.raw.upper() if self.kind in ("word", "sign") else ""

    @property
    def value(self) -> str:
        """The name or text that the token stands for."""
        if self.kind == "name":
            return self.raw[1:-1].replace("``", "`")
        if self.kind == "text":
            return unquoted(self.raw)
        return self.raw


def unquoted(raw: str) -> str:
    """The text that a quoted literal stands for, by MySQL's rules of escaping."""
    if raw[0] in "nN":
        raw = raw[1:]
    quote = raw[0]

    def resolve(found: re.Match[str]) -> str:
        if found[1] is not None:
            return _ESCAPED.get(found[1], found[1])
        return quote if found[0] == quote * 2 else found[0]

    return _ESCAPE.sub(resolve, raw[1:-1])


class Tokens:
    """The words of one statement.

    Attributes:
        text: the statement.
        restored: TiDB wrote the text, not a user.
        passed: where the word that was taken last ends.
    """

    def __init__(self, text: str, *, restored: bool = False) -> None:
        if len(text) > MAX_LENGTH:
            raise UnsupportedError(f"a DDL statement of {len(text)} characters: {MAX_LENGTH} are the most that is read")
        self.text = text
        self.restored = restored
        self.passed = 0
        self._at = 0
        self._open = 0
        self._ahead: list[Token] = []

    def peek(self, ahead: int = 0) -> Token:
        """The next word, or one further ahead, without taking it."""
        while len(self._ahead) <= ahead:
            self._ahead.append(self._read())
        return self._ahead[ahead]

    def take(self) -> Token:
        """The next word, taken."""
        token = self.peek()
        del self._ahead[0]
        self.passed = token.end
        return token

    def accept(self, *words: str) -> bool:
        """Takes these words if they are the next ones, all of them or none."""
        for i, word in enumerate(words):
            if self.peek(i).upper != word:
                return False
        for _ in words:
            self.take()
        return True

    def accept_any(self, *words: str) -> str | None:
        """Takes the next word if it is one of these, and tells which."""
        found = self.peek().upper
        if found and found in words:
            self.take()
            return found
        return None

    def expect(self, *words: str) -> None:
        """Takes these words, or fails."""
        for word in words:
            if not self.accept(word):
                self.fail(f"expected {word}")

    def name(self) -> str:
        """A name, taken: plain, in backquotes, or in double quotes."""
        token = self.peek()
        if token.kind in ("name", "word") or (token.kind == "text" and token.raw[0] == '"'):
            return self.take().value
        self.fail("expected a name")

    def integer(self) -> int:
        """A whole number, taken; `19.5` counts as 19, as MySQL has it in a type's length."""
        token = self.peek()
        whole = token.raw.partition(".")[0]
        if token.kind != "number" or not whole.isdigit() or len(whole) > 10:
            self.fail("expected a number")
        self.take()
        return int(whole)

    def literal(self) -> str:
        """A text literal, taken; a character set in front of it is passed over."""
        if self.peek().kind == "word" and self.peek().raw[0] == "_" and self.peek(1).kind in ("text", "bits"):
            self.take()
        token = self.peek()
        if token.kind == "bits":
            return bits_of(self.take().raw)[1].decode("utf-8", "surrogateescape")
        if token.kind != "text":
            self.fail("expected a text")
        return self.take().value

    def skip_group(self) -> None:
        """Takes `(` and all up to the `)` that closes it."""
        self.expect("(")
        depth = 1
        while depth:
            token = self.take()
            if token.kind == "end":
                self.fail("a parenthesis is not closed", token)
            depth += (token.upper == "(") - (token.upper == ")")

    def skip_item(self, stop: frozenset[str] = frozenset()) -> None:
        """Takes all up to the next comma, closing parenthesis or end on this level; fails at a word of `stop`."""
        while (token := self.peek()).kind != "end" and token.upper not in (",", ")", ";"):
            if token.upper in stop:
                self.fail("expected a comma")
            if token.upper == "(":
                self.skip_group()
            else:
                self.take()

    def skip_all(self, stop: frozenset[str] = frozenset()) -> None:
        """Takes all up to the statement's end; fails at a word of `stop` outside of parentheses."""
        while not self.ended():
            self.skip_item(stop)
            if not self.accept(",") and not self.ended():
                self.fail("unexpected")

    def ended(self) -> bool:
        """Whether the statement ends here; a semicolon behind it belongs to it."""
        if self.peek().upper == ";" and self.peek(1).kind == "end":
            return True
        return self.peek().kind == "end"

    def finish(self) -> None:
        """Checks that the statement ends here."""
        if not self.ended():
            self.fail("expected the end")

    def check_count(self, count: int) -> None:
        """Fails when a statement has more columns, keys or changes than any server takes."""
        if count > MAX_PARTS:
            self.fail(f"more than {MAX_PARTS} columns, keys or changes")

    def fail(self, what: str, token: Token | None = None) -> NoReturn:
        """Raises the error that shows the place.

        Raises:
            UnsupportedError: always.
        """
        token = token or self.peek()
        found = "the end" if token.kind == "end" else f"{token.raw[:40]!r}"
        self._fail(f"{what}, found {found}", token.start)

    def _fail(self, what: str, at: int) -> NoReturn:
        shown = self.text if len(self.text) <= 200 else f"{self.text[:200]}…"
        raise UnsupportedError(f"DDL that cannot be read: {what} at character {at} of {shown!r}")

    def _read(self) -> Token:
        while self._at < len(self.text):
            start = self._at
            if self.text.startswith("/*", start):
                self._comment(start)
                continue
            if self._open and self.text.startswith("*/", start):
                self._open -= 1
                self._at += 2
                continue
            found = _TOKEN.match(self.text, start)
            if found is None:
                self._fail(f"{self.text[start : start + 20]!r} is not a word, or a quote is not closed", start)
            self._at = found.end()
            if found.lastgroup != "space":
                return Token(found.lastgroup or "", found[0], start, found.end())
        if self._open:
            self._fail("a comment is not closed", len(self.text))
        return Token("end", "", len(self.text), len(self.text))

    def _comment(self, start: int) -> None:
        found = _COMMENT.match(self.text, start)
        if found is not None and len(found[0]) > 2 and (found[1] or found[2]) not in _NOBODY:
            self._open += 1
            self._at = found.end()
            return
        end = self.text.find("*/", start + 2)
        if end < 0:
            self._fail("a comment is not closed", start)
        self._at = end + 2


def bits_of(raw: str) -> tuple[int, bytes]:
    """The number and the bytes that a hexadecimal or bit literal stands for."""
    digits, base = raw[2:].rstrip("'"), 16 if raw[0] in "xX" or raw[1] == "x" else 2
    number = int(digits, base) if digits else 0
    per_byte = 2 if base == 16 else 8
    return number, number.to_bytes(-(-len(digits) // per_byte), "big")
