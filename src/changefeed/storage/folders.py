"""Opens folders by their paths and URLs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from changefeed.errors import ConfigError
from changefeed.local_files import local_path
from changefeed.storage import azure, google, s3
from changefeed.storage.access import Access, Service
from changefeed.storage.base import Folder
from changefeed.storage.local import LocalFolder
from changefeed.storage.memory import MemoryFolder
from changefeed.storage.objects import ObjectFolder
from changefeed.storage.section import StorageSection

SERVICES: dict[str, Service] = {"s3": "s3", "s3a": "s3", "s3n": "s3", "abfs": "azure", "abfss": "azure", "gs": "google"}
_HADOOP = "spark.hadoop."
_BUCKET = re.compile(r"[\w.$-]+")


def folder_at(
    path: str, section: StorageSection | None = None, spark: Mapping[str, str] | None = None
) -> Folder | None:
    """Opens the folder at a path or URL; None if it is on a file system that only Spark can reach, such as HDFS.

    Args:
        path: a path, `file:` or `memory:` URL, or the URL of an object store.
        section: the definition's section `storage`.
        spark: Spark's properties.

    Raises:
        ConfigError: as `access_to`.
    """
    local = local_path(path)
    if local is not None:
        return LocalFolder(local)
    if path.startswith("memory://"):
        return MemoryFolder(path)
    if not is_object_store(path):
        return None
    access, folder = access_to(path, section, spark)
    return ObjectFolder(path.rstrip("/"), access, folder)


def is_object_store(url: str) -> bool:
    """Whether a URL is one of an object store."""
    return url.partition("://")[0] in SERVICES and "://" in url


def access_to(
    url: str, section: StorageSection | None = None, spark: Mapping[str, str] | None = None
) -> tuple[Access, str]:
    """Returns the access to the bucket of a URL, and the folder in it.

    Args:
        url: the URL of a folder.
        section: the definition's section `storage`.
        spark: Spark's properties.

    Raises:
        ConfigError: the URL has no bucket, or a property cannot be honoured without Spark.
    """
    parts = urlsplit(url.replace("#", "%23").replace("?", "%3F"))
    section = section or StorageSection()
    hadoop = {name.removeprefix(_HADOOP): value for name, value in (spark or {}).items()}
    service = SERVICES[parts.scheme]
    bucket, _, host = parts.netloc.partition("@")
    if not bucket:
        raise ConfigError(f"{url} has no bucket: write {parts.scheme}://bucket/folder")
    if _BUCKET.fullmatch(bucket) is None or (host and service != "azure"):  # the URL may contain a secret
        raise ConfigError(
            f"a URL of {parts.scheme}:// has more than the name of a bucket: write {parts.scheme}://bucket/folder, and keys in "
            "the section `storage`"
        )
    folder = "/".join(part for part in unquote(parts.path).split("/") if part)
    match service:
        case "s3":
            access = s3.access(bucket, section, hadoop)
        case "azure":
            access = azure.access(url, bucket, host, section, hadoop)
        case "google":
            access = google.access(bucket, section, hadoop)
    return access, folder
