#!/usr/bin/env python3
"""Adds the kernel to the requirements in pyproject.toml, for a release: `pip install changefeed` then installs its wheel.

A checkout does not have the requirement, because its version of the kernel is on no index: `make install` builds it. See
docs/decisions/0041-only-a-release-requires-the-kernel.md.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The platforms for which the workflow `release.yml` builds wheels. On others pip would compile the kernel, which takes cargo.
LINUX = "sys_platform == 'linux' and (platform_machine == 'x86_64' or platform_machine == 'aarch64')"
PLATFORMS = f"({LINUX}) or sys_platform == 'darwin'"


def requirement(version: str) -> str:
    """Returns the requirement: exactly this version, because the two are released together."""
    return f"changefeed-kernel=={version}; platform_python_implementation == 'CPython' and ({PLATFORMS})"


def named(project: str) -> str:
    """Returns the text of pyproject.toml with the requirement.

    Raises:
        ValueError: the text has no version or no list of dependencies, or has the requirement.
    """
    version = re.search(r'(?m)^version = "(.+)"$', project)
    if version is None or "changefeed-kernel==" in project:
        raise ValueError("pyproject.toml has no version, or names the kernel already")
    text, replaced = re.subn(
        r"(?m)^dependencies = \[\n", lambda head: f'{head[0]}    "{requirement(version[1])}",\n', project, count=1
    )
    if not replaced:
        raise ValueError("pyproject.toml has no list `dependencies = [`")
    return text


def main() -> int:
    """Writes the file, and prints the requirement."""
    path = ROOT / "pyproject.toml"
    text = named(path.read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8")
    print(*re.findall(r'"(changefeed-kernel==.*)",', text), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
