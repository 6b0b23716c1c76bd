"""The section of an event sink of `type: files`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from changefeed.sinks.section import EventSinkSection


class FilesSink(EventSinkSection):
    """Record logs in a folder: a Parquet file for each append."""

    type: Literal["files"]
    path: str = Field(description="A folder of this machine to which nothing else writes.")


SECTION = FilesSink
