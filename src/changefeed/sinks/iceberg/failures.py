"""Translates the errors of catalogs, whose clients have no base class in common.

the user's credentials or rights     AccessError
the catalog does not answer          SinkError, transient
the catalog refuses the request      SinkError
anything else                        SinkError, transient: a commit may have been made
"""

from __future__ import annotations

import re
from typing import Any

from pyiceberg.exceptions import (
    BadRequestError,
    ForbiddenError,
    OAuthError,
    RESTError,
    UnauthorizedError,
)
from requests.exceptions import ConnectionError as NoConnection
from requests.exceptions import InvalidURL, MissingSchema, SSLError, Timeout

from changefeed.errors import AccessError, ConfigError, SinkError

_SECTION = "sink.catalog-properties"
_LENGTH = 500  # characters of a client's text
_REFUSED_BY_AWS = {
    "AccessDeniedException", "ExpiredTokenException", "InvalidClientTokenId", "InvalidSignatureException",
    "UnrecognizedClientException", "MissingAuthenticationTokenException",
}  # fmt: skip
_REFUSED_BY_SQL = ("28", "42501")  # SQLSTATE: invalid authorization, insufficient privilege


def translated(error: Exception, catalog: str, path: str, uri: str) -> AccessError | ConfigError | SinkError:
    """Returns the error for one of a catalog's client.

    Args:
        error: what the client raised.
        catalog: the catalog's name.
        path: the table; empty if none is meant.
        uri: where the catalog is; may be empty.
    """
    original = getattr(error, "orig", None) or error  # SQLAlchemy adds the statement
    text = f"{' '.join(str(original).split()) or type(error).__name__:.{_LENGTH}}"
    name = f"catalog {catalog}" + (f" at {uri}" if uri else "")
    if _is_refused_user(error):
        return AccessError(f"catalog {catalog} refuses this user: {text}. See {_SECTION}")
    if isinstance(error, MissingSchema | InvalidURL):
        return ConfigError(f"catalog {catalog} cannot be opened: {text}. See {_SECTION}")
    if isinstance(error, SSLError):
        return SinkError(f"{name}: TLS fails: {_cause(error):.{_LENGTH}}. See {_SECTION}", transient=True)
    if isinstance(error, NoConnection | Timeout) or _has_no_server(original):
        return SinkError(
            f"{name} does not answer: {_cause(original):.{_LENGTH}}. Is it running, and is uri in {_SECTION} right?",
            transient=True,
        )
    about = f"{name}: {path}: {text}" if path else f"{name}: {text}"
    if type(error).__name__ == "InvalidObjectException":  # of Hive
        return SinkError(
            f"{about}. Hive has names of letters, digits and _ alone: leave the table out by pipeline.exclude, or use another "
            "catalog"
        )
    if isinstance(error, BadRequestError | NotImplementedError) or type(error) is RESTError:
        return SinkError(f"{about}. The catalog refuses the request: see {_SECTION}")
    return SinkError(about, transient=True)


def _is_refused_user(error: Exception) -> bool:
    """Whether a catalog refuses the user's credentials, or lets the user not do this."""
    if isinstance(error, UnauthorizedError | ForbiddenError | OAuthError):
        return True
    package = type(error).__module__.partition(".")[0]
    if package == "botocore":
        answer: Any = getattr(error, "response", {})
        return type(error).__name__ == "NoCredentialsError" or answer.get("Error", {}).get("Code") in _REFUSED_BY_AWS
    if package == "sqlalchemy":
        original = getattr(error, "orig", None)
        state = getattr(original, "sqlstate", None) or ""
        return state.startswith(_REFUSED_BY_SQL) or "password authentication failed" in str(original)
    return False


def _has_no_server(error: BaseException) -> bool:
    """Whether the client of a database or of Hive has found no server, or has waited for its answer for too long."""
    package = type(error).__module__.partition(".")[0]
    if package == "thrift":
        return type(error).__name__ == "TTransportException"
    return package in ("psycopg", "psycopg2") and "connection to server" in str(error)


def _cause(error: BaseException) -> str:
    """Returns the text of the innermost reason of an error of a client."""
    reason: Any = error
    for _ in range(4):
        inner = getattr(reason, "reason", None) or (reason.args[0] if getattr(reason, "args", ()) else None)
        if not isinstance(inner, BaseException):
            break
        reason = inner
    text = str(reason)
    match = re.search(r"\[Errno -?\d+\].*|[Rr]ead timed out.*|Connection refused", text, re.DOTALL)
    return " ".join((match[0] if match else text or type(reason).__name__).split())
