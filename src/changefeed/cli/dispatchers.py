"""The rules in a changefeed's file, as `-o dispatchers=FILE` names it: TOML, as TiCDC takes it, or JSON.

What may lie in it: a changefeed's whole configuration (`case-sensitive`, `[sink] dispatchers`), `dispatchers` alone, or,
in JSON, the list of rules.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from changefeed.errors import ConfigError


def with_rules(given: Mapping[str, str]) -> dict[str, Any]:
    """The options with what the file says in place of its name; `case-sensitive` on the command line wins.

    Raises:
        ConfigError: the file cannot be read, or has no rules.
    """
    if "dispatchers" not in given:
        return dict(given)
    path = Path(given["dispatchers"])
    said = _read(path)
    if isinstance(said, list):
        return {**given, "dispatchers": said}
    sink = said.get("sink", said)
    rules = sink.get("dispatchers") if isinstance(sink, dict) else None
    if rules is None:
        raise ConfigError(f"{path}: no dispatchers in it: expected what a changefeed's file has under [sink]")
    sensitive = said.get("case-sensitive", said.get("case_sensitive", False))
    return {"case-sensitive": sensitive, **given, "dispatchers": rules}


def _read(path: Path) -> dict[str, Any] | list[Any]:
    try:
        text = path.read_text(encoding="utf-8")
        said = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; dispatchers= names a TOML or JSON file") from error
    except ValueError as error:  # both parsers', and what is not UTF-8
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(said, (dict, list)):
        raise ConfigError(f"{path}: expected a changefeed's configuration, or a list of rules")
    return said
