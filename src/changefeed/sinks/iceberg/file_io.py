"""PyIceberg's files in a folder of `changefeed.storage`: one way to each storage, with one kind of credentials.

A catalog opens `FolderIO` by its name, with the catalog's properties. They contain the folder and its location.
"""

from __future__ import annotations

import io
import re
from typing import Any, cast

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.typedef import EMPTY_DICT, Properties

from changefeed.errors import SinkError
from changefeed.storage import Folder

FOLDER, LOCATION = "changefeed.folder", "changefeed.location"


class OutsideError(SinkError):
    """A file of a table is outside of the sink's folder."""


class FolderIO(FileIO):
    """The files below one location."""

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self._folder: Folder = properties[FOLDER]
        self._location: str = properties[LOCATION]

    def new_input(self, location: str) -> InputFile:
        """Returns a file to read."""
        return _Input(location, self._folder, self._name(location))

    def new_output(self, location: str) -> OutputFile:
        """Returns a file to write."""
        return _Output(location, self._folder, self._name(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Deletes a file, if it exists."""
        place = location if isinstance(location, str) else location.location
        self._folder.delete([self._name(place)])

    def _name(self, location: str) -> str:
        return name_below(self._location, location)


def name_below(root: str, location: str) -> str:
    """Returns the name of a file in the folder at a location.

    Raises:
        OutsideError: the file is outside of the folder.
    """
    prefix, place = f"{_plain(root)}/", _plain(location)
    if place.startswith(prefix):
        return place[len(prefix) :]
    raise OutsideError(
        f"{location} is outside of {root}, where this sink has its tables. Give the pipeline another sink.namespace"
    )


def _plain(location: str) -> str:
    """Returns a location in the one form of its scheme: Hadoop writes `file:/lake`, and `s3a://` for `s3://`."""
    return re.sub(r"^s3[an]://", "s3://", re.sub(r"^file:/+", "/", location))


class _Input(InputFile):
    def __init__(self, location: str, folder: Folder, name: str) -> None:
        super().__init__(location)
        self._folder, self._name = folder, name

    def __len__(self) -> int:
        info = self._folder.info(self._name)
        if info is None:
            raise FileNotFoundError(f"{self.location} does not exist")
        return info.size

    def exists(self) -> bool:
        return self._folder.exists(self._name)

    def open(self, seekable: bool = True) -> InputStream:
        if self._name.endswith(".parquet"):
            return cast(InputStream, self._folder.open(self._name))
        data = self._folder.read(self._name)  # metadata and manifests are read whole
        if data is None:
            raise FileNotFoundError(f"{self.location} does not exist")
        return io.BytesIO(data)


class _Output(OutputFile):
    def __init__(self, location: str, folder: Folder, name: str) -> None:
        super().__init__(location)
        self._folder, self._name = folder, name
        self._size: int | None = None

    def __len__(self) -> int:
        return len(self.to_input_file()) if self._size is None else self._size

    def exists(self) -> bool:
        return self._folder.exists(self._name)

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._folder, self._name)

    def create(self, overwrite: bool = False) -> OutputStream:
        return _Stream(self, overwrite=overwrite)

    def write(self, data: bytes, *, overwrite: bool) -> None:
        """Writes the file durably."""
        if overwrite:
            self._folder.put(self._name, data)
        elif not self._folder.create(self._name, data):
            raise FileExistsError(f"{self.location} exists already")
        self._size = len(data)


class _Stream(io.BytesIO):
    """A file's bytes until it is closed."""

    def __init__(self, file: _Output, *, overwrite: bool) -> None:
        super().__init__()
        self._file, self._overwrite = file, overwrite

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._file.write(data, overwrite=self._overwrite)

    def __exit__(self, kind: Any, *error: Any) -> None:
        if kind is not None:
            super().close()  # of an unfinished file nothing is written
        else:
            self.close()
