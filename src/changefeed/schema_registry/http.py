"""The schema registry over HTTP: Confluent's own client, with its errors translated and its gaps closed.

    get         GET  /schemas/ids/7                 {"schema": "…"}       404 with 40403: LookupError
    register    POST /subjects/shop_items-key/versions  {"schema": "…"}   {"id": 7}

The client retries with growing waits (408, 429, 5xx, no connection), then with the next URL, and has a bounded cache. Added
here:

Rule 1. A request has a time limit for its whole response, and a response has a maximum size: `bounded`.
Rule 2. User and password may be in the URL, as on a TiCDC command line. They are taken out of it, so that errors do not show
        them, and sent to all URLs.
Rule 3. An id that was refused is not requested again for five seconds: a damaged topic must not cause a flood of requests.
Rule 4. Id 0 is invalid. Schemas that are not Avro, or that use references, are not supported.
Rule 5. The server may not be a schema registry (a proxy's page, a redirect to a login): the error names this, in one line.
Rule 6. All tasks in a process that ask with the same options share Confluent's client and its schemas, because an id keeps its
        schema, and the start of a client takes longer than many requests. What was refused is not shared.
"""

from __future__ import annotations

import json
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from changefeed.errors import ConfigError, MissingExtraError, SchemaError, SchemaRegistryError
from changefeed.protocols.base import RegistryOptions
from changefeed.schema_registry.bounded import BoundedSession

_UNKNOWN_SCHEMA = 40403
_RETRIABLE = (408, 429, 500, 502, 503, 504)
_REFUSED_FOR_S = 5.0
_MAX_REFUSED = 10_000
_MAX_CLIENTS = 16
_REDIRECTED = "it redirects; name the URL that answers directly"
_NO_ANSWER = (json.JSONDecodeError, UnicodeDecodeError, AttributeError, TypeError, RecursionError)
_T = TypeVar("_T")


class Client:
    """One schema registry, behind one or more URLs."""

    def __init__(self, where: str, options: RegistryOptions) -> None:
        try:
            from confluent_kafka import schema_registry as confluent
        except ImportError as error:
            raise MissingExtraError("schema-registry over HTTP", "schema-registry") from error
        self._confluent = confluent
        self._urls, user_info = _urls(where, options.basic_auth_user_info)
        settings, files = _settings(self._urls, user_info, options), _files(options)
        try:
            self._client = _client(tuple(settings.items()), files, os.getpid())
        except (ValueError, TypeError, OSError) as error:
            raise ConfigError(f"schema-registry {self._urls}: {error}") from error
        self._refused: OrderedDict[int, float] = OrderedDict()

    def get(self, schema_id: int) -> str:
        """Returns the text of the schema with this id.

        Raises:
            LookupError: the schema registry does not have the id.
            SchemaError: the schema is not Avro, or uses references.
            SchemaRegistryError: the request failed.
        """
        if time.monotonic() - self._refused.get(schema_id, -_REFUSED_FOR_S) < _REFUSED_FOR_S:
            raise LookupError(f"schema registry {self._urls} has no schema {schema_id}")
        try:
            registered = self._ask(f"schema {schema_id}", lambda: self._client.get_schema(schema_id))
        except LookupError:
            self._refused[schema_id] = time.monotonic()
            while len(self._refused) > _MAX_REFUSED:
                self._refused.popitem(last=False)
            raise
        if registered.references:
            raise SchemaError(
                f"schema {schema_id} references other schemas, which is not supported", reason="bad-schema"
            )
        if (registered.schema_type or "AVRO") != "AVRO":
            raise SchemaError(f"schema {schema_id} is {registered.schema_type}, expected AVRO", reason="bad-schema")
        if not isinstance(registered.schema_str, str) or not registered.schema_str:
            raise SchemaRegistryError(f"schema registry {self._urls} answered without a schema for schema {schema_id}")
        return registered.schema_str

    def register(self, subject: str, schema: str) -> int:
        """The id of a schema text under a subject.

        Raises:
            SchemaRegistryError: the schema registry refuses it, or the request failed.
        """
        asked = self._confluent.Schema(schema, "AVRO")
        try:
            registered = self._ask(f"subject {subject}", lambda: self._client.register_schema(subject, asked))
        except LookupError as error:
            raise SchemaRegistryError(str(error)) from error
        if not registered or registered < 0:  # typed int, but None if the response has none
            raise SchemaRegistryError(f"schema registry {self._urls} returned the id {registered} for {subject}")
        return int(registered)

    def _ask(self, what: str, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except self._confluent.SchemaRegistryError as error:
            status = error.http_status_code
            if status == 404 and error.error_code == _UNKNOWN_SCHEMA:
                raise LookupError(f"schema registry {self._urls} has no {what}") from error
            reason = _REDIRECTED if 300 <= status < 400 else f"{error.error_message or 'no reason given'!s:.200}"
            message = f"schema registry {self._urls} answered {status} for {what}: {reason}"
            raise SchemaRegistryError(message, transient=status in _RETRIABLE) from error
        except SchemaRegistryError:  # raised by the session
            raise
        except _NO_ANSWER as error:  # raised by the client, which expects JSON of its own form
            message = (
                f"schema registry {self._urls} has no answer for {what}: the response is not from a schema registry"
            )
            raise SchemaRegistryError(message, transient=True) from error
        except Exception as error:  # raised by the HTTP library of the client
            reason = str(error) or type(error).__name__
            message = f"schema registry {self._urls} did not answer for {what}: {reason}"
            raise SchemaRegistryError(message, transient=True) from error


def forget_clients() -> None:
    """Forgets all clients of this process, and their schemas."""
    _client.cache_clear()


def _httpx() -> Any:
    """The HTTP library that Confluent's client uses."""
    from confluent_kafka.schema_registry.common import _httpx_compat

    return _httpx_compat.httpx


def _urls(where: str, user_info: str | None) -> tuple[str, str | None]:
    """The URLs without users and passwords, and the one user:password in them or in the option."""
    urls, users = [], {user_info} if user_info else set()
    for url in where.split(","):
        try:
            parts = urlsplit(url.strip())
            host = parts.netloc.rpartition("@")[2]
            valid = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
        except ValueError:
            valid = False
        if not valid:
            raise ConfigError(f"schema-registry: {url.rpartition('@')[2]!r:.80} is not a URL with a host")
        if parts.username is not None:
            users.add(f"{unquote(parts.username)}:{unquote(parts.password or '')}")
        urls.append(urlunsplit((parts.scheme, host, parts.path.rstrip("/"), parts.query, "")))
    if len(users) > 1:
        raise ConfigError("schema-registry: its URLs and basic.auth.user.info name several users, expected one")
    return ",".join(urls), next(iter(users), None)


def _files(options: RegistryOptions) -> tuple[int, ...]:
    """When the files that the options name were last changed: certificates are replaced while a pipeline runs."""
    files = {
        "ssl.ca.location": options.ssl_ca_location,
        "ssl.certificate.location": options.ssl_certificate_location,
        "ssl.key.location": options.ssl_key_location,
    }
    changed = []
    for name, path in files.items():
        if path is not None:
            try:
                changed.append(os.stat(path).st_mtime_ns)
            except OSError as error:
                raise ConfigError(f"{name}: {path!r} does not exist") from error
    return tuple(changed)


@lru_cache(_MAX_CLIENTS)
def _client(settings: tuple[tuple[str, Any], ...], files: tuple[int, ...], process: int) -> Any:
    """The client of a process for these settings, and for files that have not changed since."""
    from confluent_kafka.schema_registry import SchemaRegistryClient

    known = dict(settings)
    client = SchemaRegistryClient(known)
    rest: Any = client._rest_client  # there is no public way to set the session
    rest.session = BoundedSession(rest.session, _httpx(), known["timeout"])
    return client


def _settings(urls: str, user_info: str | None, options: RegistryOptions) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "url": urls,
        "basic.auth.user.info": user_info,
        "ssl.ca.location": options.ssl_ca_location,
        "ssl.certificate.location": options.ssl_certificate_location,
        "ssl.key.location": options.ssl_key_location,
        "ssl.key.password": options.ssl_key_password,
        "timeout": options.timeout,
        "max.retries": options.max_retries,
        "retries.wait.ms": options.retries_wait_ms,
        "retries.max.wait.ms": options.retries_max_wait_ms,
        "cache.capacity": options.cache_capacity,
    }
    if options.bearer_auth_token:
        if user_info:
            raise ConfigError("schema-registry: expected a user or bearer.auth.token, not both")
        settings |= {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": options.bearer_auth_token,
            "bearer.auth.logical.cluster": options.bearer_auth_logical_cluster,
            "bearer.auth.identity.pool.id": options.bearer_auth_identity_pool_id,
        }
    return {name: value for name, value in settings.items() if value is not None}
