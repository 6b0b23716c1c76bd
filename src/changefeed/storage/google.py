"""Access to Google's storage: options of a definition, and properties of Hadoop's connector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from changefeed.errors import ConfigError
from changefeed.storage.access import Access, client_options, present

if TYPE_CHECKING:
    from changefeed.storage.section import StorageSection

_PREFIXES = ("fs.gs.", "google.cloud.")  # of the connector's own properties, and of the older names
_READ = ("SERVICE_ACCOUNT_JSON_KEYFILE", "APPLICATION_DEFAULT", "COMPUTE_ENGINE", "UNAUTHENTICATED")


def access(bucket: str, section: StorageSection, hadoop: Mapping[str, str]) -> Access:
    """Returns the access to a bucket.

    Raises:
        ConfigError: the properties ask for credentials that only Spark could get.
    """

    def read(name: str) -> str | None:
        return next((hadoop[f"{prefix}{name}"] for prefix in _PREFIXES if hadoop.get(f"{prefix}{name}")), None)

    has_own = section.service_account or section.service_account_key or section.anonymous
    kind = read("auth.type")
    if kind not in (None, *_READ) and not has_own:
        raise ConfigError(
            f"fs.gs.auth.type is {kind}, which changefeed does not support outside of Spark: set storage.service-account, or use "
            f"{', '.join(_READ)}"
        )
    endpoint = section.endpoint or hadoop.get("fs.gs.storage.root.url") or None
    keyfile = None if has_own else read("auth.service.account.json.keyfile")
    config = {
        "base_url": endpoint,
        "service_account": section.service_account or keyfile,
        "service_account_key": section.service_account_key,
        "skip_signature": section.anonymous or (kind == "UNAUTHENTICATED" and not has_own),
    }
    return Access("google", bucket, present(config), present(client_options(section, endpoint)))
