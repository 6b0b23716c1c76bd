"""Access to the page: checks every request before it reaches a handler.

Rule 1. **Host.** A request must name a host under which the page is served. A foreign site whose name was pointed at this address
        (DNS rebinding) gets 421.
Rule 2. **Token.** With a token, a request needs it as `Authorization: Bearer`, or the cookie that the login form sets. Both are
        compared in constant time. The cookie does not contain the token: it is signed with a key of this process.
Rule 3. **Posts.** A form needs the field `csrf`, signed for the browser's cookie; a foreign site can neither read nor compute
        it. If the browser sends `Origin`, it must be this host.
Rule 4. **Answers** carry a policy under which the browser loads nothing but the files of `static`.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from changefeed.monitor.hosts import is_loopback

COOKIE = "changefeed"
OPEN = ("/login", "/static/style.css", "/static/refresh.js")  # paths that need no token
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one server.

    Attributes:
        host: the address to which it is bound.
        token: None if none is needed.
        names: more names under which it is served, such as that of a proxy.
        secure: whether it is served over TLS.
    """

    host: str
    token: str | None = field(default=None, repr=False)  # prose: HTTP's word for it
    names: tuple[str, ...] = ()
    secure: bool = False
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def serves(self, header: str) -> bool:
        """Whether a `Host` header names this server."""
        try:
            name = urlsplit(f"//{header}").hostname or ""
        except ValueError:
            return False
        if name in {one.lower() for one in self.names}:
            return True
        if is_loopback(self.host):
            return is_loopback(name)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            own = {self.host.lower(), "localhost", socket.gethostname().lower(), socket.getfqdn().lower()}
            return name in own
        return True  # an address cannot be pointed anywhere else

    def admits(self, request: Request) -> bool:
        """Whether a request carries the token, or the cookie of a login."""
        if self.token is None:
            return True
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(value.strip()):
            return True
        return self._is_signed("session", request.cookies.get(COOKIE, ""))

    def is_token(self, text: str) -> bool:
        """Whether a text is the token."""
        return hmac.compare_digest(text.encode(), (self.token or "").encode()) and self.token is not None

    def new_session(self) -> str:
        """Returns the cookie of a new login."""
        return self._signed("session", secrets.token_hex(16))

    def csrf(self, cookie: str) -> str:
        """Returns the value of the field `csrf` in forms for the browser that has this cookie."""
        return self._signed("csrf", cookie).rpartition(".")[2]

    def may_post(self, request: Request, csrf: str) -> bool:
        """Whether a form came from a page of this server; see rule 3."""
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            return False
        cookie = request.cookies.get(COOKIE, "")
        return bool(cookie) and hmac.compare_digest(csrf.encode(), self.csrf(cookie).encode())

    def _signed(self, purpose: str, value: str) -> str:
        return f"{value}.{hmac.new(self._key, f'{purpose} {value}'.encode(), hashlib.sha256).hexdigest()}"

    def _is_signed(self, purpose: str, text: str) -> bool:
        value = text.rpartition(".")[0]
        return hmac.compare_digest(text.encode(), self._signed(purpose, value).encode())


Next = Callable[[Request], Awaitable[Response]]


async def guarded(access: Access, request: Request, answer: Next) -> Response:
    """Answers a request if the rules allow it."""
    path = request.url.path
    response: Response
    if not access.serves(request.headers.get("host", "")):
        response = PlainTextResponse("This host is not served here. Name it with --allow-host.\n", 421)
    elif path not in OPEN and not access.admits(request):
        response = _refused(request)
    else:
        response = await answer(request)
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def _refused(request: Request) -> Response:
    headers = {"WWW-Authenticate": 'Bearer realm="changefeed"'}
    if request.url.path.endswith(".json") or request.method != "GET" or "authorization" in Headers(scope=request.scope):
        return JSONResponse({"error": "This page needs a token: Authorization: Bearer …"}, 401, headers)
    return RedirectResponse("/login", 303)


def names_of(names: Sequence[str]) -> tuple[str, ...]:
    """The names of `--allow-host` as they are compared."""
    return tuple(name.strip().lower() for name in names)
