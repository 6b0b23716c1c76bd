"""Copies of `examples/` as the repository has it: what a user's runs have left in the checkout is not part of it."""

from __future__ import annotations

import shutil
from pathlib import Path

_EXAMPLES = Path(__file__).parents[1] / "examples"


def copy_examples(folder: Path) -> Path:
    """Copies the examples to `folder / "examples"`, without the output of earlier runs; returns the copy."""
    return shutil.copytree(_EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("out", "__pycache__"))
