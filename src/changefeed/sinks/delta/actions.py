"""Reads the actions of a commit from the text of its file, one JSON object in each line.

A file that was not whole on disk at a power cut is empty or ends early. Every commit has an action. Spark and changefeed end the
last line with a newline, delta-rs does not.
"""

from __future__ import annotations

from typing import Any

import msgspec

LogAction = dict[str, Any]


def actions_of(text: bytes) -> list[LogAction]:
    """Returns the actions of a commit.

    Raises:
        ValueError: the text is not a whole commit.
    """
    lines = text.split(b"\n")  # texts may hold other ends of lines
    try:
        actions = [msgspec.json.decode(line, type=dict) for line in lines if line.strip()]
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ValueError(f"a line of it is not a JSON object: {error}") from error
    if not actions:
        raise ValueError("it has no action")
    writer = next(
        (str(a["commitInfo"].get("engineInfo")) for a in actions if isinstance(a.get("commitInfo"), dict)), ""
    )
    if lines[-1] and writer.startswith(("changefeed", "Apache-Spark")):
        raise ValueError("it ends early")
    return actions
