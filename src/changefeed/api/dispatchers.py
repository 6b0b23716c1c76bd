"""Dispatch rules from a changefeed's configuration file, for `-o dispatchers=FILE`: TOML, as TiCDC takes it, or JSON.

The file has a changefeed's whole configuration (`case-sensitive`, `[sink] dispatchers`), `dispatchers` alone, or,
in JSON, the list of rules.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from changefeed.errors import ConfigError


def with_rules(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with the rules of the file in place of its name; `case-sensitive` on the command line wins.

    Raises:
        ConfigError: the file cannot be read, or has no rules.
    """
    if not isinstance(values.get("dispatchers"), str | Path):
        return dict(values)
    path = Path(values["dispatchers"])
    content = _read(path)
    if isinstance(content, list):
        return {**values, "dispatchers": content}
    sink = content.get("sink", content)
    rules = sink.get("dispatchers") if isinstance(sink, dict) else None
    if rules is None:
        raise ConfigError(f"{path}: no dispatchers in it: expected what a changefeed's file has under [sink]")
    sensitive = content.get("case-sensitive", content.get("case_sensitive", False))
    return {"case-sensitive": sensitive, **values, "dispatchers": rules}


def _read(path: Path) -> dict[str, Any] | list[Any]:
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; dispatchers= names a TOML or JSON file") from error
    except ValueError as error:  # from both parsers, and for text that is not UTF-8
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(content, (dict, list)):
        raise ConfigError(f"{path}: expected a changefeed's configuration, or a list of rules")
    return content
