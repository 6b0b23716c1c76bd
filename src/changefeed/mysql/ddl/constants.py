"""Expressions of constants in DEFAULT -> the value that the server computes.

    3  -1.5  1e3  TRUE  NULL                    number: int, Decimal (a number with a point), float (with an exponent)
    'a' 'b'  N'x'  _utf8mb4'x'                  str
    x'41'  0x41  b'101'                         bytes; a number in arithmetic
    DATE'…'  TIME'…'  TIMESTAMP'…'  {d'…'}      Temporal
    (1 + 2 * 3)  -(7 DIV 2)  '1' + 1            as MySQL computes it: text is a float, a quotient has 4 more digits
    CONCAT('a', 1)  JSON_OBJECT()               str

Everything else, such as functions and columns, has no value here: `UNKNOWN`. So has a result that depends on a variable of the
session, or that is too large for the server's own arithmetic. The text is untrusted: nesting is limited, and so are digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal, InvalidOperation, localcontext

from changefeed.errors import UnsupportedError
from changefeed.mysql.ddl.tokens import Token, Tokens, bits_of

_DEEPEST = 50
_DIGITS = 65  # of MySQL's decimals
_MORE_DIGITS = 4  # of a quotient: div_precision_increment
_BIGGEST = 2**63 - 1
_TYPED = {"DATE": "date", "TIME": "time", "TIMESTAMP": "datetime", "D": "date", "T": "time", "TS": "datetime"}
_CHARSETS = frozenset({"_UTF8MB4", "_UTF8", "_UTF8MB3"})  # whose bytes are as they are here


@dataclass(frozen=True, slots=True)
class Temporal:
    """A typed literal.

    Attributes:
        kind: `date`, `time` or `datetime`.
    """

    kind: str
    text: str


class Unknown:
    """The type of `UNKNOWN`."""


class Quotient(Decimal):
    """A quotient, or what is computed from one. How many digits it has as text depends on the server."""


UNKNOWN = Unknown()
Number = int | Decimal | float
Value = Number | str | bytes | Temporal | Unknown | None
"""None is NULL."""


class _UnknownError(Exception):
    """A part of the expression is not a constant."""


def constant(sql: str) -> Value:
    """Returns the value of an expression; `UNKNOWN` if it is not an expression of constants."""
    tokens = Tokens(sql)
    try:
        with localcontext(prec=200):
            value = _sum(tokens, 0)
        return value if tokens.peek().kind == "end" else UNKNOWN
    except (_UnknownError, UnsupportedError, InvalidOperation, OverflowError):
        return UNKNOWN


def number_of(value: str) -> float | None:
    """Returns the number that a text is in arithmetic; None if it is not wholly a number."""
    text = value.strip()
    if len(text) > _DIGITS or set(text) - set("+-.0123456789eE"):
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _sum(tokens: Tokens, depth: int) -> Value:
    value = _product(tokens, depth)
    while (sign := tokens.accept_any("+", "-")) is not None:
        value = _computed(sign, value, _product(tokens, depth))
    return value


def _product(tokens: Tokens, depth: int) -> Value:
    value = _unary(tokens, depth)
    while (sign := tokens.accept_any("*", "/", "%", "DIV", "MOD")) is not None:
        value = _computed("%" if sign == "MOD" else sign, value, _unary(tokens, depth))
    return value


def _unary(tokens: Tokens, depth: int) -> Value:
    negative = False
    count = 0
    while (sign := tokens.accept_any("+", "-")) is not None:
        negative ^= sign == "-"
        count += 1
    value = _primary(tokens, depth)
    if not count or (not negative and isinstance(value, int | Decimal | float)):
        return value
    if negative and value == 0 and isinstance(value, int | Decimal):
        return value
    return _computed("-", 0, value) if negative else value


def _primary(tokens: Tokens, depth: int) -> Value:
    if depth > _DEEPEST:
        raise _UnknownError
    token = tokens.take()
    match token.kind:
        case "number":
            return _number(token.raw)
        case "bits":
            return bits_of(token.raw)[1]
        case "text":
            return _text(tokens, token)
        case "word":
            return _word(tokens, token, depth)
    if token.upper == "(":
        value = _sum(tokens, depth + 1)
        _expect(tokens, ")")
        return value
    if token.upper == "{":
        value = _word(tokens, tokens.take(), depth)
        _expect(tokens, "}")
        return value if isinstance(value, Temporal) else UNKNOWN
    raise _UnknownError


def _word(tokens: Tokens, token: Token, depth: int) -> Value:
    word = token.upper
    if word in ("TRUE", "FALSE"):
        return int(word == "TRUE")
    if word == "NULL":
        return None
    if word in _TYPED and tokens.peek().kind == "text":
        return Temporal(_TYPED[word], tokens.take().value)
    if word.startswith("_") and tokens.peek().kind in ("text", "bits"):
        return _introduced(tokens, word)
    if word == "CONCAT" and tokens.accept("("):
        return _concatenated(tokens, depth)
    for name, text in (("JSON_OBJECT", "{}"), ("JSON_ARRAY", "[]")):
        if word == name and tokens.accept("(", ")"):
            return text
    raise _UnknownError


def _text(tokens: Tokens, token: Token) -> str:
    parts = [token.value]
    while tokens.peek().kind == "text":
        parts.append(tokens.take().value)
    return "".join(parts)


def _introduced(tokens: Tokens, charset: str) -> Value:
    token = tokens.take()
    if token.kind == "text":
        text = _text(tokens, token)
        return text if charset != "_BINARY" or text.isascii() else UNKNOWN
    data = bits_of(token.raw)[1]
    if charset == "_BINARY":
        return data
    return data.decode() if data.isascii() or charset in _CHARSETS else UNKNOWN


def _concatenated(tokens: Tokens, depth: int) -> Value:
    parts = []
    while True:
        parts.append(_sum(tokens, depth + 1))
        if not tokens.accept(","):
            break
    _expect(tokens, ")")
    if None in parts:
        return None
    if not all(isinstance(p, str | int | Decimal) and not isinstance(p, Quotient) for p in parts):
        return UNKNOWN
    return "".join(str(p) for p in parts)


def _number(raw: str) -> Number:
    if len(raw) > _DIGITS + 2:
        raise _UnknownError
    if "e" in raw.lower():
        value = float(raw)
        if value in (float("inf"), float("-inf")):
            raise _UnknownError
        return value
    if "." in raw:
        return Decimal(raw.rstrip(".")) if raw.rstrip(".") else Decimal(0)
    number = int(raw)
    return number if number <= 2**64 - 1 else Decimal(number)


def _computed(sign: str, left: Value, right: Value) -> Value:
    if left is None or right is None:
        return None
    a, b = _operand(left), _operand(right)
    if isinstance(a, float) or isinstance(b, float):
        return _in_floats(sign, float(a), float(b))
    result = _exact(sign, a, b)
    if isinstance(result, int) and not -_BIGGEST - 1 <= result <= _BIGGEST:
        raise _UnknownError  # whether it is an error depends on the operands' signs
    if isinstance(result, Decimal) and len(result.as_tuple().digits) > _DIGITS:
        raise _UnknownError
    from_quotient = sign == "/" or isinstance(a, Quotient) or isinstance(b, Quotient)
    return Quotient(result) if from_quotient and isinstance(result, Decimal) else result


def _operand(value: Value) -> Number:
    if isinstance(value, int | Decimal | float):
        return value
    if isinstance(value, bytes) and len(value) <= 8:
        return int.from_bytes(value, "big")
    number = number_of(value) if isinstance(value, str) else None
    if number is None:
        raise _UnknownError
    return number


def _exact(sign: str, a: int | Decimal, b: int | Decimal) -> int | Decimal | None:
    match sign:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
    if b == 0:
        return None
    quotient = Decimal(a) / Decimal(b)
    whole = quotient.to_integral_value(ROUND_DOWN)
    if sign == "DIV":
        return int(whole)
    if sign == "%":
        rest = Decimal(a) - Decimal(b) * whole
        return int(rest) if isinstance(a, int) and isinstance(b, int) else rest
    scale = _scale(a) + _MORE_DIGITS
    result = quotient.quantize(Decimal(1).scaleb(-scale))
    if result != quotient:
        raise _UnknownError  # it has as many digits as the session's div_precision_increment
    return result


def _scale(number: int | Decimal) -> int:
    exponent = Decimal(number).as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def _in_floats(sign: str, a: float, b: float) -> float | None:
    match sign:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return a / b if b else None
    raise _UnknownError


def _expect(tokens: Tokens, sign: str) -> None:
    if not tokens.accept(sign):
        raise _UnknownError
