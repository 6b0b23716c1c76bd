"""The URI of a server: for `changefeed discover`, and as a short form of a source's options.

    mysql://changefeed:s%40cret@db.example.com:3306/shop
            user       password host           port database

Rule 1. All parts are percent-encoded, so that a password may contain `@`, `/` and `%`.
Rule 2. Nothing is ignored: a parameter behind `?` is refused, as a client that reads `ssl-mode` there would use TLS.
Rule 3. No error contains a part of the password, and no later message does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from changefeed.errors import ConfigError
from changefeed.redaction import remember

DEFAULT_PORT = 3306
# With a password in it, redaction would hide the example, too.
_EXPECTED = "expected a URI such as mysql://user@host:3306/database, with `user:password` for a user with a password"
_PASSWORD = re.compile(r"\w+://[^:]*:(.+)@", re.DOTALL)  # also if a character in it is not encoded


@dataclass(frozen=True, slots=True)
class ServerUri:
    """The parts of a URI, decoded; None for a part that it does not have."""

    host: str
    port: int | None
    user: str
    password: str | None
    database: str | None


def read_uri(uri: Any) -> ServerUri:
    """Splits the text of a definition or command line into its decoded parts.

    Raises:
        ConfigError: it is not the URI of a server, or has a part that is not read.
    """
    text = uri if isinstance(uri, str) else ""
    if (match := _PASSWORD.match(text)) is not None:
        remember("password", [match[1], unquote(match[1])])
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:  # the cause has a part of the text, which may be one of a password
        raise ConfigError(
            f"no valid port, or a password whose `@`, `/`, `?` or `#` is not percent-encoded: {_EXPECTED}"
        )
    if parts.scheme not in ("mysql", "mariadb") or not parts.hostname or not parts.username:
        raise ConfigError(_EXPECTED)
    if parts.query:
        names = ", ".join(f"`{name}`" for name, _ in parse_qsl(parts.query, keep_blank_values=True))
        raise ConfigError(f"a URI takes no parameters such as {names}: write them as options of the source beside it")
    if parts.fragment:
        raise ConfigError(f"a URI has no part after `#`: {_EXPECTED}")
    password, database = unquote(parts.password or ""), unquote(parts.path.strip("/"))
    return ServerUri(parts.hostname, port, unquote(parts.username), password or None, database or None)


def expanded(written: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the section with the options that its `uri` stands for.

    Raises:
        ConfigError: the URI cannot be read, or an option is given both ways.
    """
    try:
        uri = read_uri(written["uri"])
    except ConfigError as error:
        raise ConfigError(f"source.uri: {error}") from error
    tables = None if uri.database is None else [f"{json.dumps(uri.database, ensure_ascii=False)}.*"]
    parts = {"host": uri.host, "port": uri.port, "user": uri.user, "password": uri.password, "tables": tables}
    options = {name: value for name, value in parts.items() if value is not None}
    beside = {name: value for name, value in written.items() if name != "uri"}
    for name in beside:
        part = "password" if name == "password-file" else name
        if part in options:
            named = "a database, which selects its tables" if part == "tables" else f"a {part}"
            raise ConfigError(f"source.{name}: the `uri` has {named}: give it one way alone")
    return {**beside, **options}
