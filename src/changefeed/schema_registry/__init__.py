"""The schema registry: schema text by id, and ids for schema texts; over HTTP, or from files.

    http://…, https://…    Confluent's API: `http`
    a path                 a file or folder of files: `files`

Either way the result is two plain functions, created where they are used and not shared between processes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from changefeed.errors import ConfigError
from changefeed.protocols.base import RegistryOptions
from changefeed.schema_registry import files, http

Get = Callable[[int], str]
Register = Callable[[str, str], int]
_HOST = re.compile(r"|[\w.-]+:\d+(/.*)?")  # empty, or a URL without its scheme


def connect(where: str, options: RegistryOptions) -> tuple[Get, Register]:
    """Returns the functions `get(id)` and `register(subject, schema)`; see `protocols.base.Stores`.

    Args:
        where: one URL or several, separated by commas, or a path.
        options: options for TLS and credentials.

    Raises:
        ConfigError: the URL is invalid.
        MissingExtraError: the HTTP client is not installed.
    """
    if _HOST.fullmatch(where) and not os.path.exists(where):
        raise ConfigError(f"schema-registry {where!r}: expected a path or a URL, as http://{where or 'registry:8081'}")
    if "://" not in where or where.startswith("file://"):
        chosen = files.Files(where.removeprefix("file://"))
        return chosen.get, chosen.register
    if not where.lower().startswith(("http://", "https://")):
        raise ConfigError(f"schema-registry {where.partition('://')[0]}://…: expected http, https or a path")
    client = http.Client(where, options)
    return client.get, client.register
