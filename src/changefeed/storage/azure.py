"""Access to Azure's storage: options of a definition, and properties of Hadoop's ABFS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from changefeed.errors import ConfigError
from changefeed.storage.access import Access, client_options, present

if TYPE_CHECKING:
    from changefeed.storage.section import StorageSection

_CUSTOM = ("Custom", "UserboundSASWithOAuth")
_OAUTH = "fs.azure.account.oauth2."


def access(url: str, container: str, host: str, section: StorageSection, hadoop: Mapping[str, str]) -> Access:
    """Returns the access to a container; `host` is that of the account.

    Raises:
        ConfigError: the URL has no account, or the properties name a class that only Spark could load.
    """
    if "." not in host:
        raise ConfigError(f"{url} has no account: write abfss://container@account.dfs.core.windows.net/folder")

    def read(name: str) -> str | None:
        """Returns a property of the account, or of all accounts."""
        return hadoop.get(f"{name}.{host}") or hadoop.get(name) or None

    account, _, domain = host.partition(".")
    kind = read("fs.azure.account.auth.type")
    if kind in _CUSTOM:
        raise ConfigError(
            f"fs.azure.account.auth.type of {host} is {kind}, a class that changefeed cannot load outside of Spark: set "
            "storage.sas-token, or storage.client-id, storage.client-secret and storage.tenant-id"
        )
    endpoint = section.endpoint
    if endpoint is None and domain.removeprefix("dfs.") != "core.windows.net":  # a national cloud
        endpoint = f"https://{account}.{domain.replace('dfs.', 'blob.', 1)}"
    config: dict[str, str | bool | None] = {
        "account_name": account,
        "endpoint": endpoint,
        "skip_signature": section.anonymous,
        "account_key": section.account_key,
        "sas_token": section.sas_token,
        "client_id": section.client_id,
        "client_secret": section.client_secret,
        "tenant_id": section.tenant_id,
    }
    if not any((section.account_key, section.sas_token, section.client_id, section.anonymous)):
        config |= _of_hadoop(kind, read)
    return Access("azure", container, present(config), present(client_options(section, endpoint)))


def _of_hadoop(kind: str | None, read: Callable[[str], str | None]) -> dict[str, str | bool | None]:
    """Returns the credentials in the properties, by the account's type of authentication."""
    match kind:
        case "OAuth":
            endpoint = str(read(f"{_OAUTH}client.endpoint") or "")
            tenant = endpoint.partition("://")[2].split("/")[1:2]
            return {
                "client_id": read(f"{_OAUTH}client.id"),
                "client_secret": read(f"{_OAUTH}client.secret"),
                "tenant_id": tenant[0] if tenant else read(f"{_OAUTH}msi.tenant"),
                "federated_token_file": read(f"{_OAUTH}token.file"),
            }
        case "SAS":
            return {"sas_token": read("fs.azure.sas.fixed.token")}
        case _:
            return {"account_key": read("fs.azure.account.key")}
