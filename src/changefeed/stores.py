"""Outside resources of decoders and encoders, as plain functions: claim-check files and schemas of a schema registry.

A claim-check store is a folder: a local path, or any URL that fsspec supports (`s3://…`, `gs://…`, `hdfs://…`). Names of its
files come from messages, so only plain file names are accepted: nothing outside of the folder is ever read or written, not
even through a symbolic link.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from changefeed import schema_registry
from changefeed.errors import ConfigError, MissingExtraError, SinkError, SourceError
from changefeed.protocols.base import Options, RegistryOptions, Stores

Get = Callable[[str], bytes]
Put = Callable[[str, bytes], None]
DEFAULT_MAX_BYTES = 268_435_456


def claim_check_store(uri: str, max_bytes: int = DEFAULT_MAX_BYTES) -> tuple[Get, Put]:
    """Functions that read and write files of the folder at `uri`.

    Args:
        uri: a path, `file://…`, or a URL of any fsspec file system.
        max_bytes: reading stops one byte above this, so that the reader can detect a file that is too large.

    Returns:
        `get(name)`, which raises FileNotFoundError if the file does not exist and SourceError if the store fails,
        and `put(name, data)`, which raises SinkError.

    Raises:
        ConfigError: the URL's scheme is unknown; MissingExtraError when its package is not installed.
    """
    parts = urlsplit(uri)
    if len(parts.scheme) > 1 and parts.scheme != "file":
        return _remote(uri, max_bytes)
    return _local(Path(parts.path if parts.scheme == "file" else uri), max_bytes)


def stores(uri: str | None, max_bytes: int = DEFAULT_MAX_BYTES) -> Stores:
    """The stores for a decoder or an encoder whose option `claim-check-storage-uri` is `uri`."""
    return Stores() if uri is None else Stores(*claim_check_store(uri, max_bytes))


def stores_of(options: Options) -> Stores:
    """The stores that a protocol's options name: claim-check store, schema registry, or neither."""
    if isinstance(options, RegistryOptions):
        return schema_registry_stores(options)
    claims = options.claim_checks
    return stores(claims.uri, claims.max_bytes) if claims is not None else Stores()


def schema_registry_stores(options: RegistryOptions) -> Stores:
    """The stores for options that may name a schema registry."""
    if options.schema_registry is None:
        return Stores()
    get, register = schema_registry.connect(options.schema_registry, options)
    return Stores(get_schema=get, register_schema=register)


def _local(folder: Path, max_bytes: int) -> tuple[Get, Put]:
    def get(name: str) -> bytes:
        path = folder / _plain(name)
        try:
            real = path.resolve()
            if not real.is_relative_to(folder.resolve()):
                raise SourceError(
                    f"claim-check file {path}: a symbolic link that leads out of the folder is not followed"
                )
            with open(os.open(real, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
                return file.read(max_bytes + 1)
        except FileNotFoundError as error:
            if not folder.is_dir():  # a missing file is an answer; a missing folder is an error
                raise SourceError(f"claim-check-storage-uri: there is no folder {folder}") from error
            raise
        except OSError as error:
            raise SourceError(f"claim-check file {path}: {error.strerror}") from error

    def put(name: str, data: bytes) -> None:
        path = folder / _plain(name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".", delete=False) as file:
                file.write(data)
            os.replace(file.name, path)
        except OSError as error:
            raise SinkError(f"claim-check file {path}: {error.strerror}") from error

    return get, put


def _remote(uri: str, max_bytes: int) -> tuple[Get, Put]:
    system, folder = _file_system(uri)

    def get(name: str) -> bytes:
        path = f"{folder}/{_plain(name)}"
        try:
            with system.open(path, "rb") as file:
                return bytes(file.read(max_bytes + 1))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise SourceError(f"claim-check file {path}: {error}", transient=True) from error

    def put(name: str, data: bytes) -> None:
        path = f"{folder}/{_plain(name)}"
        try:
            system.makedirs(folder, exist_ok=True)
            system.pipe_file(path, data)
        except OSError as error:
            raise SinkError(f"claim-check file {path}: {error}", transient=True) from error

    return get, put


def _file_system(uri: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtraError(f"claim-check-storage-uri {urlsplit(uri).scheme}://", "ticdc") from error
    try:
        system, folder = fsspec.core.url_to_fs(uri.split("?", 1)[0])
    except (ValueError, ImportError) as error:
        raise ConfigError(f"claim-check-storage-uri {uri.split('?', 1)[0]}: {error}") from error
    return system, str(folder).rstrip("/")


def _plain(name: str) -> str:
    if not name or name.startswith(".") or "/" in name or "\\" in name or "\0" in name:
        raise SourceError(f"{name!r} is not a plain name of a claim-check file")
    return name
