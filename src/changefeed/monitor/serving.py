"""Serves the page at an address."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from changefeed.errors import ConfigError, MissingExtraError
from changefeed.monitor.hosts import is_loopback

_SHORTEST = 16  # characters of a token


@dataclass(frozen=True, slots=True)
class Address:
    """The address of the page, and its protection.

    Attributes:
        host, port: the address; port 0 for any that is free.
        token: needed for every request; None on a loopback address.
        names: more names of the host, see `security.Access`.
        certificate, key: files in PEM for TLS; None without it.
    """

    host: str = "127.0.0.1"
    port: int = 8464
    token: str | None = field(default=None, repr=False)  # prose: HTTP's word for it
    names: tuple[str, ...] = ()
    certificate: str | None = None
    key: str | None = None

    def check(self) -> None:
        """Checks that the page is not open to everybody.

        Raises:
            ConfigError: an option is missing, or does not suffice.
        """
        if self.token is None and not is_loopback(self.host):
            raise ConfigError(
                f"--host {self.host} can be reached from other machines: set a token of at least {_SHORTEST} characters in "
                "CHANGEFEED_MONITOR_TOKEN, or leave --host out"
            )
        if self.token is not None and len(self.token) < _SHORTEST:
            raise ConfigError(f"the token has {len(self.token)} characters: it needs at least {_SHORTEST}")
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("--tls-cert and --tls-key are needed together")

    @property
    def is_plain(self) -> bool:
        """Whether tokens would cross a network without TLS."""
        return self.certificate is None and not is_loopback(self.host)


def serve(
    places: Sequence[str], address: Address, started: Callable[[str, int], None], *, actions: bool = False
) -> None:
    """Serves the page until Ctrl-C or SIGTERM.

    Args:
        places: definitions, and folders with pipelines.
        address: where.
        started: called with the URL and the number of pipelines when requests are answered.
        actions: whether dead letters may be replayed.

    Raises:
        MissingExtraError: a package is not installed.
        ConfigError: the address or a file cannot be used; or as `finding.find`.
        SinkError: as `finding.find`.
    """
    address.check()
    try:
        import jinja2  # noqa: F401  its absence is reported before anything is read
        import uvicorn

        from changefeed.monitor.app import Catalog, application
        from changefeed.monitor.security import Access, names_of
    except ImportError as error:
        raise MissingExtraError("`changefeed monitor`", "monitor") from error
    catalog = Catalog(places)
    catalog.search()
    access = Access(address.host, address.token, names_of(address.names), address.certificate is not None)
    config = uvicorn.Config(
        application(catalog, access, actions=actions), log_level="warning", access_log=False, server_header=False,
        proxy_headers=False, ssl_certfile=address.certificate, ssl_keyfile=address.key, lifespan="off",
    )  # fmt: skip
    bound = _bound(address.host, address.port)
    try:
        config.load()
    except OSError as error:
        bound.close()
        raise ConfigError(
            f"--tls-cert {address.certificate} and --tls-key {address.key} cannot be used: {error}"
        ) from error
    host = f"[{address.host}]" if ":" in address.host else address.host
    scheme = "http" if address.certificate is None else "https"

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started(f"{scheme}://{host}:{bound.getsockname()[1]}/", len(catalog.pipelines))  # now requests are answered

    threading.Thread(target=catalog.overview, daemon=True, name="monitor-first").start()  # what it reads is kept
    with bound:
        Server(config).run(sockets=[bound])


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
        bound.listen(128)
    except OSError as error:
        raise ConfigError(
            f"{host}:{port} cannot be used: {error.strerror}. Set another --port, or 0 for any that is free"
        ) from error
    return bound
