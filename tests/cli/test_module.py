"""`python -m changefeed`."""

from __future__ import annotations

import subprocess
import sys

import pytest

import changefeed


@pytest.mark.parametrize("module", ["changefeed", "changefeed.cli"])
def test_the_package_runs_as_the_command(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith(changefeed.__version__)
