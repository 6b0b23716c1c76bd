"""`sink: {type: delta}`."""

from __future__ import annotations

from typing import Literal

from changefeed.sinks.section import SinkSection


class DeltaSink(SinkSection):
    """Delta tables under a folder: `<path>/<database>/<table>`."""

    type: Literal["delta"]


SECTION = DeltaSink
