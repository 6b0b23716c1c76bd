"""Endpoints and credentials of object stores: from the section `storage`, from Spark's properties, from the platform.

    section `storage`   >   spark.hadoop.fs.s3a.… fs.azure.… fs.gs.…   >   environment, profile, role of the machine

`folders.access_to` merges the first two on the driver. Workers receive the result; the third is read where the client is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from changefeed.errors import ConfigError

if TYPE_CHECKING:
    from changefeed.storage.section import StorageSection

Service = Literal["s3", "azure", "google"]


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of S3, as a definition contains them."""

    id: str
    secret: str = field(repr=False)
    session: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Access:
    """A bucket, or a container of Azure, with its endpoint and credentials.

    Attributes:
        service: which service it is.
        bucket: its name.
        config: options of the service, by their names in `obstore`.
        client: options of the HTTP client, by their names in `obstore`.
        keys: of S3, if a definition has them.
        profile: of S3, if a definition names one.
    """

    service: Service
    bucket: str
    config: tuple[tuple[str, str | bool], ...] = field(default=(), repr=False)
    client: tuple[tuple[str, str | bool], ...] = ()
    keys: Keys | None = None
    profile: str | None = None

    @property
    def endpoint(self) -> str:
        """The URL of the service, for messages; empty for that of the cloud."""
        options = dict(self.config)
        return str(options.get("aws_endpoint_url_s3") or options.get("endpoint") or options.get("base_url") or "")


def client_options(section: StorageSection, endpoint: str | None) -> dict[str, str | bool]:
    """Returns the options of the HTTP client that all services share."""
    options: dict[str, str | bool] = {"timeout": section.timeout, "connect_timeout": "5 seconds"}
    if endpoint is not None and endpoint.startswith("http://"):
        options["allow_http"] = True
    if section.proxy is not None:
        options["proxy_url"] = section.proxy
    if section.ca_certificate is not None:
        try:
            with open(section.ca_certificate, encoding="ascii") as file:
                options["root_certificate"] = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"storage.ca-certificate {section.ca_certificate} cannot be read: {error}") from error
    return options


def present(options: Mapping[str, str | bool | None]) -> tuple[tuple[str, str | bool], ...]:
    """Returns the options that have a value, in the order of their names."""
    return tuple(sorted((name, value) for name, value in options.items() if value not in (None, "", False)))
