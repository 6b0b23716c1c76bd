r"""Lexer: the tokens of a MySQL statement, read one at a time and only forward.

    `name`  "name"          name: quoted; a double-quoted text is a name where the grammar expects one (ANSI_QUOTES)
    'text'  "text"  N'text' text: '' and \x resolved
    x'41'  0x41  b'101'     bits
    12  1.5  2e3            number
    word  _utf8mb4  1c      word: keyword or plain name; only the grammar can distinguish them
    ( ) , ; = …             sign: any other printable character
    /*!40101 … */           executable comment of MySQL: its content is read, its delimiters are skipped;
    /*T![x] … */ /*M! … */  the same for TiDB and MariaDB
    -- …  # …  /* … */      comment: skipped

The text is untrusted: it has at most `MAX_LENGTH` characters, tokens are read only as the grammar asks for them, no
pattern backtracks and nothing recurses. Every error is an UnsupportedError that shows the position.
"""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from changefeed.errors import UnsupportedError
from changefeed.model.escaped_names import escaped

MAX_LENGTH = 4 << 20
MAX_PARTS = 4096  # columns, keys or changes in a statement: the limit of MySQL and TiDB

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
_NEVER = frozenset({"99999", "999999"})  # versions that no server reaches: a plain comment for all of them


class Token(NamedTuple):
    """One token.

    Attributes:
        kind: `word`, `name`, `text`, `bits`, `number`, `sign`, or `end` after the last one.
        raw: verbatim, as in the statement.
        start, end: its position in the statement, in characters.
        upper: a word or sign in upper case; "" for a token that cannot be a keyword.
    """

    kind: str
    raw: str
    start: int
    end: int
    upper: str = ""

    @property
    def value(self) -> str:
        """The name or text without quotes and escapes."""
        if self.kind == "name":
            return self.raw[1:-1].replace("``", "`")
        if self.kind == "text":
            return unquoted(self.raw)
        return self.raw


def unquoted(raw: str) -> str:
    """The text of a quoted literal, with MySQL's escapes resolved."""
    if raw[0] in "nN":
        raw = raw[1:]
    quote = raw[0]

    def resolve(match: re.Match[str]) -> str:
        if match[1] is not None:
            return _ESCAPED.get(match[1], match[1])
        return quote if match[0] == quote * 2 else match[0]

    return _ESCAPE.sub(resolve, raw[1:-1])


class Tokens:
    """The tokens of a text with one or more statements.

    Attributes:
        text: the statements; NUL characters at the end are removed.
        restored: TiDB generated the text, not a user.
        escapes: names of columns and keys are escaped: see `model.escaped_names`.
        passed: the end of the last token taken.
        comment: that of the table whose options were parsed; None without one.
    """

    def __init__(self, text: str, *, restored: bool = False, escapes: bool = False) -> None:
        if len(text) > MAX_LENGTH:
            raise UnsupportedError(f"the DDL statement has {len(text)} characters, the limit is {MAX_LENGTH}")
        self.text = text.rstrip("\0") if text.endswith("\0") else text
        self.restored = restored
        self.escapes = escapes
        self.passed = 0
        self.comment: str | None = None
        self._at = 0
        self._open = 0
        self._ahead: list[Token] = []

    def peek(self, ahead: int = 0) -> Token:
        """The next token, or one further ahead, without taking it."""
        tokens = self._ahead
        while len(tokens) <= ahead:
            tokens.append(self._read())
        return tokens[ahead]

    def take(self) -> Token:
        """Takes the next token."""
        token = self.peek()
        del self._ahead[0]
        self.passed = token.end
        return token

    def accept(self, *words: str) -> bool:
        """Takes these words if all of them come next; returns whether they do."""
        if self.peek().upper != words[0]:
            return False
        for i in range(1, len(words)):
            if self.peek(i).upper != words[i]:
                return False
        for _ in words:
            self.take()
        return True

    def accept_any(self, *words: str) -> str | None:
        """Takes and returns the next word if it is one of these, else None."""
        word = self.peek().upper
        if word and word in words:
            self.take()
            return word
        return None

    def expect(self, *words: str) -> None:
        """Takes these words; raises an error that names the place if the next tokens are others."""
        for word in words:
            if not self.accept(word):
                self.fail(f"expected {word}")

    def name(self) -> str:
        """Takes the name of a column or key."""
        name = self.table()
        return escaped(name) if self.escapes else name

    def table(self) -> str:
        """Takes the name of a table or database: plain, in backquotes, or in double quotes."""
        token = self.peek()
        if token.kind in ("name", "word") or (token.kind == "text" and token.raw[0] == '"'):
            return self.take().value
        self.fail("expected a name")

    def integer(self) -> int:
        """Takes an integer; `19.5` is 19, as MySQL reads the length of a type."""
        token = self.peek()
        whole = token.raw.partition(".")[0]
        if token.kind != "number" or not whole.isdigit() or len(whole) > 10:
            self.fail("expected a number")
        self.take()
        return int(whole)

    def literal(self) -> str:
        """Takes a text literal; a character set before it is skipped."""
        if self.peek().kind == "word" and self.peek().raw[0] == "_" and self.peek(1).kind in ("text", "bits"):
            self.take()
        token = self.peek()
        if token.kind == "bits":
            return bits_of(self.take().raw)[1].decode("utf-8", "surrogateescape")
        if token.kind != "text":
            self.fail("expected a text")
        return self.take().value

    def skip_group(self) -> None:
        """Takes `(` and all up to the matching `)`."""
        self.expect("(")
        depth = 1
        while depth:
            token = self.take()
            if token.kind == "end":
                self.fail("a parenthesis is not closed", token)
            depth += (token.upper == "(") - (token.upper == ")")

    def skip_item(self, stop: frozenset[str] = frozenset()) -> None:
        """Takes all up to the next comma, closing parenthesis or end at this level; fails at a word of `stop`."""
        while (token := self.peek()).kind != "end" and token.upper not in (",", ")", ";"):
            if token.upper in stop:
                self.fail("expected a comma")
            if token.upper == "(":
                self.skip_group()
            else:
                self.take()

    def skip_all(self, stop: frozenset[str] = frozenset()) -> None:
        """Takes all up to the statement's end; fails at a word of `stop` outside parentheses."""
        while not self.ended():
            self.skip_item(stop)
            if not self.accept(",") and not self.ended():
                self.fail("unexpected")

    def ended(self) -> bool:
        """Whether the statement ends here, with a semicolon or with the text."""
        return self.peek().upper == ";" or self.peek().kind == "end"

    def skip_statement(self) -> bool:
        """Takes all up to the statement's end; returns whether it can be read. Otherwise the whole text is taken."""
        try:
            while not self.ended():
                self.take()
        except UnsupportedError:
            self.skip_text()
            return False
        return True

    def skip_text(self) -> None:
        """Takes all up to the end of the text, unread."""
        self._at, self._open, self._ahead = len(self.text), 0, []

    def finish(self) -> None:
        """Checks that the statement ends here."""
        if not self.ended():
            self.fail("expected the end")

    def check_count(self, count: int) -> None:
        """Fails if a statement has more columns, keys or changes than any server accepts."""
        if count > MAX_PARTS:
            self.fail(f"more than {MAX_PARTS} columns, keys or changes")

    def fail(self, what: str, token: Token | None = None) -> NoReturn:
        """Raises an error with the position of the token.

        Raises:
            UnsupportedError: always.
        """
        token = token or self.peek()
        shown = "the end" if token.kind == "end" else f"{token.raw[:40]!r}"
        self._fail(f"{what}, found {shown}", token.start)

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
            match = _TOKEN.match(self.text, start)
            if match is None:
                self._fail(f"{self.text[start : start + 20]!r} is not a token, or a quote is not closed", start)
            self._at = match.end()
            kind, raw = match.lastgroup or "", match[0]
            if kind != "space":
                return Token(kind, raw, start, match.end(), raw.upper() if kind in ("word", "sign") else "")
        if self._open:
            self._fail("a comment is not closed", len(self.text))
        return Token("end", "", len(self.text), len(self.text))

    def _comment(self, start: int) -> None:
        match = _COMMENT.match(self.text, start)
        if match is not None and len(match[0]) > 2 and (match[1] or match[2]) not in _NEVER:
            self._open += 1
            self._at = match.end()
            return
        end = self.text.find("*/", start + 2)
        if end < 0:
            self._fail("a comment is not closed", start)
        self._at = end + 2


def bits_of(raw: str) -> tuple[int, bytes]:
    """The number and the bytes of a hexadecimal or bit literal."""
    digits, base = raw[2:].rstrip("'"), 16 if raw[0] in "xX" or raw[1] == "x" else 2
    number = int(digits, base) if digits else 0
    per_byte = 2 if base == 16 else 8
    return number, number.to_bytes(-(-len(digits) // per_byte), "big")
