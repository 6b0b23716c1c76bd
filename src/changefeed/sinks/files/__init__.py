"""A folder of record logs, to which records are appended.

See `events.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from changefeed.protocols.base import Encoder
    from changefeed.sinks.files.events import FileEvents


def open_events(definition: Any, encoder: Callable[[], Encoder]) -> FileEvents:
    """Opens the event sink that a `type: files` section describes."""
    from changefeed.sinks.files.events import FileEvents

    return FileEvents(definition.path.rstrip("/"), encoder)
