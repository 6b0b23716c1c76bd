"""Reads TiCDC's dispatch rules from a file, for `-o dispatchers=FILE`: the TOML of a TiCDC changefeed, or JSON.

The file contains the whole configuration of a TiCDC changefeed (`case-sensitive`, `[sink] dispatchers`), only `dispatchers`,
or, in JSON, only the list of rules.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from changefeed.errors import ConfigError


def with_rules(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options, with the name of a `dispatchers` file replaced by its rules. `case-sensitive` overrides the file.

    Raises:
        ConfigError: the file cannot be read, or contains no rules.
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
        raise ConfigError(f"{path}: no dispatchers: expected those of a changefeed's [sink] section")
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
