"""Programs that tests build with Go; each is built once, and kept beside the Spark jars."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from changefeed.spark_runtime import ivy


def built(name: str, files: Mapping[str, str], package: str) -> str:
    """The path of a program.

    Args:
        name: of the program with its version; another version needs another name.
        files: name -> text of the files of a module with it, or with a requirement of it.
        package: of the program, as `go build` takes it.
    """
    program = ivy.cache_folder() / "tools" / name
    if not program.is_file():
        if shutil.which("go") is None:
            pytest.skip(f"{name} is built with Go, which is not installed")
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            for file, text in files.items():
                (Path(folder) / file).write_text(text)
            unfinished = program.with_suffix(f".{os.getpid()}")
            subprocess.run(
                ["go", "build", "-o", str(unfinished), package],
                cwd=folder, env=os.environ | {"GOFLAGS": "-mod=mod"}, check=True, capture_output=True,
            )  # fmt: skip
            unfinished.rename(program)
    return str(program)
