"""`source: {type: files}`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from changefeed.sources.section import SourceSection


class FilesSource(SourceSection):
    """Record logs in a folder that may grow: `*.jsonl`, `*.jsonl.gz`, `*.jsonl.zst`, `*.parquet`."""

    type: Literal["files"]
    path: str = Field(
        description="A file, or a pattern such as `history/*.jsonl.gz`; relative to the definition. A log is known by its path: "
        "renamed, it is read again."
    )

    @property
    def reads(self) -> str:
        """See `SourceSection`."""
        return self.path


SECTION = FilesSource
