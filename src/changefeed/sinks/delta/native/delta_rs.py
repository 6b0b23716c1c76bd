"""Opens tables with delta-rs, which writes checkpoints and deletes old logs."""

from __future__ import annotations

from typing import Any

from changefeed.storage import Folder
from changefeed.storage.access import Access
from changefeed.storage.objects import ObjectFolder
from changefeed.storage.s3 import local_options

_SCHEMES = {"s3": "s3", "azure": "az", "google": "gs"}


def table(folder: Folder, version: int | None = None) -> Any:
    """Opens a table at a version, by default the newest, as `deltalake.DeltaTable`.

    Raises:
        deltalake.exceptions.DeltaError, OSError: the table cannot be read.
    """
    from deltalake import DeltaTable

    url, options = location(folder)
    return DeltaTable(url, version, storage_options=options)


def location(folder: Folder) -> tuple[str, dict[str, str] | None]:
    """Returns the path or URL of a folder for delta-rs, and its options."""
    if not isinstance(folder, ObjectFolder):
        return folder.path, None
    return f"{_SCHEMES[folder.access.service]}://{folder.access.bucket}/{folder.root}", _options(folder.access)


def _options(access: Access) -> dict[str, str]:
    """Converts an access to options of delta-rs, which takes no provider of credentials: those of this moment are copied."""
    options: dict[str, Any] = {**dict(access.config), **dict(access.client)}
    if access.service == "s3":
        local, provider = local_options(access)
        options |= dict(local)
        if provider is not None:
            credentials = provider()
            options |= {"aws_access_key_id": credentials["access_key_id"]}
            options |= {
                "aws_secret_access_key": credentials["secret_access_key"],
                "aws_session_token": credentials["token"],
            }
        options["aws_endpoint_url"] = options.pop("aws_endpoint_url_s3", None)
    return {name: str(value).lower() if value is True else str(value) for name, value in options.items() if value}
