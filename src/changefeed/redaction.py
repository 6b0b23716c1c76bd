"""Redacts secrets in messages.

Rule 1. A value is a secret by the name of its option (`password`, `basic.auth.user.info`, …), by the name of the environment
        variable that it came from, or as the password in a URL or a `user:password@host`.
Rule 2. `remember` collects the secrets of the definitions that this process has read; `redact` replaces each of them by `***`
        in every message: errors, warnings, notes, progress, checks, and Spark's stderr.
Rule 3. Passwords in URLs are replaced in any message, remembered or not.
Rule 4. Data is not redacted: events, tables and dead letters are what the upstream wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "***"
# Option names of Kafka, Confluent, Hadoop, Spark and TiCDC; in Java's syntax, too, for Spark's own redaction.
SECRET_NAMES = (
    r"(?i)secret|salt$|passw|passphrase|token|credential|jaas|signature|user[._-]?info|"
    r"(access|account|private|api|sas|encryption|keystore)[._-]?key|key[._-]pem|\b(sas|sig)\b"
)
_MIN_LETTERS = 4  # shorter values occur inside ordinary words
_NAME = re.compile(SECRET_NAMES)
_WHERE = re.compile(
    r"(?i)(provider|source|path|location|file|url|uri|class|type|mechanism|enabled)$"
)  # options that refer to a secret but do not contain it
_WORDS = frozenset({"true", "false", "null", "none"})
# `user:password@` behind `//`, or at the start of a server; and secret parameters of a URL and of a JVM.
_IN_URL = re.compile(r"(?<=//)[^/\s@'\"]*:(?:[^/\s'\"]*|(?!\d+/)[^\s'\"]*)@")  # AWS's passwords may contain `/`
_AT_HOST = re.compile(r"(?:^|//|,)\s*[^/@\s,:]*:(?P<password>[^/\s]+|(?!\d+/)\S+)@")
_PARAMETER = re.compile(r"(?P<name>(?:[?&;]|-D)[^=&;\s]*)=(?P<value>[^&;\s'\"]+)")
_QUOTED = re.compile(r"\w+\s*=\s*\"((?:\\.|[^\"\\])*)\"")
_remembered: dict[str, None] = {}


def is_secret(name: str) -> bool:
    """Whether an option or a variable with this name is a secret."""
    return _NAME.search(name) is not None and _WHERE.search(name) is None


def remember(name: str, value: Any) -> None:
    """Redacts the secrets of an option's value in every later message."""
    for secret in _secrets(name, value):
        if len(secret) >= _MIN_LETTERS and secret.lower() not in _WORDS:
            forms = (secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1])
            _remembered.update(dict.fromkeys(forms))
            _remembered[json.dumps(secret, ensure_ascii=False)[1:-1]] = None


def redact(text: str) -> str:
    """The text with `***` in place of every secret."""
    for secret in sorted((s for s in _remembered if s in text), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = _IN_URL.sub(f"{HIDDEN}@", text)
    return _PARAMETER.sub(lambda match: f"{match['name']}={HIDDEN}" if is_secret(match["name"]) else match[0], text)


def reference(name: str, value: str) -> str:
    """An option's value that may be shown and pasted into a definition: a secret becomes a reference to the environment."""
    variable = re.sub(r"\W", "_", name).upper()
    if is_secret(name):
        return f"${{{variable}}}"
    return _IN_URL.sub(f"${{{variable}_USER_INFO}}@", value)


def _secrets(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secrets(f"{name}.{key}" if is_secret(name) else str(key), item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secrets(name, item)
    elif value is not None and not isinstance(value, bool):
        yield from _in_text(str(value), is_secret(name))


def _in_text(text: str, secret: bool) -> Iterator[str]:
    if secret:
        yield text
        for quoted in _QUOTED.finditer(text):
            yield from (quoted[1], re.sub(r"\\(.)", r"\1", quoted[1]))
        if " " not in text:
            yield text.partition(":")[2]  # user:password
    for match in _AT_HOST.finditer(text):
        yield match["password"]
        yield unquote(match["password"])
    for match in _PARAMETER.finditer(text):
        if is_secret(match["name"]):
            yield match["value"]
            yield unquote(match["value"])
