"""Programs of other Debian suites, in a folder of their own: the machine's packages stay as they are.

apt's own client downloads a package, with all that it needs, from the mirror of Debian in the machine's own sources, and
`dpkg -x` unpacks it. The C library may be newer than the machine's, so a program is started by the loader of the same suite.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from changefeed.spark_runtime import ivy


class UnavailableError(Exception):
    """A program cannot be had on this machine, for this reason."""


def unpacked(suite: str, package: str) -> Path:
    """The folder with a package of a suite and all that it needs; fetched once. Skips the test if it cannot be had."""
    target = ivy.cache_folder() / f"{package}-{suite}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{package}-", dir=target.parent))
    try:
        _unpack(work, suite, package)
        (work / "root").rename(target)
    except UnavailableError as error:
        pytest.skip(f"{package} of Debian's suite {suite} cannot be had: {error}")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def beside(package: str, installed: str) -> Path:
    """The folder with a package of the machine's own suite, in the version of one that is installed, without what it needs.

    It is fetched once. Skips the test if it cannot be had.
    """
    try:
        version = _run(["dpkg-query", "--show", "--showformat=${Version}", installed], Path("/"))
        target = ivy.cache_folder() / f"{package}-{version.replace(':', '_')}"
        if target.is_dir():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{package}-", dir=target.parent) as work:
            _run(["apt-get", "download", f"{package}={version}"], Path(work))
            for archive in Path(work).glob("*.deb"):
                _run(["dpkg", "-x", str(archive), f"{work}/root"], Path(work))
            (Path(work) / "root").rename(target)
    except (UnavailableError, FileNotFoundError) as error:
        pytest.skip(f"{package} cannot be had in the version of {installed}: {error}")
    return target


def command(root: Path, program: str) -> list[str]:
    """The start of the command of an unpacked program: its loader, and its path."""
    (loader,) = root.glob("usr/lib/*/ld-linux-*.so.*")
    return [str(loader), "--library-path", str(loader.parent), str(root / program)]


def _unpack(work: Path, suite: str, package: str) -> None:
    for folder in ("lists/partial", "archives/partial", "debs", "root"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    (work / "sources.list").write_text(f"deb {_mirror()} {suite} main\n")
    own = {
        "Dir::Etc::sourcelist": work / "sources.list", "Dir::Etc::sourceparts": "/dev/null", "Dir::State::lists": work / "lists",
        "Dir::Cache": work, "Dir::State::status": work / "status", "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
    }  # fmt: skip
    if os.geteuid() == 0:
        own["APT::Sandbox::User"] = "root"  # the sandbox's user may not write to the temporary folder
    apt = ["apt-get", "--quiet", *(f"-o{name}={value}" for name, value in own.items())]
    _run([*apt, "update"], work)
    planned = _run([*apt, "--simulate", "--no-install-recommends", "install", package], work)
    packages = [line.split()[1] for line in planned.splitlines() if line.startswith("Inst ")]
    _run([*apt, "download", *packages], work / "debs")
    for archive in (work / "debs").iterdir():
        _run(["dpkg", "-x", str(archive), str(work / "root")], work)


def _mirror() -> str:
    """The address of Debian's main archive in the machine's own sources."""
    if shutil.which("apt-get") is None:
        raise UnavailableError("this machine has no apt-get")
    asked = _run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN) $(COMPONENT) $(REPO_URI)", "Identifier: Packages"], Path("/")
    )
    mirrors = [line.split() for line in asked.splitlines()]
    for origin, component, *uri in mirrors:
        if (origin, component) == ("Debian", "main") and not uri[0].rstrip("/").endswith("-security"):
            return uri[0]
    raise UnavailableError("apt's sources name no mirror of Debian, or `apt-get update` was not run")


def _run(command: list[str], folder: Path) -> str:
    ran = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    if ran.returncode != 0:
        raise UnavailableError(ran.stdout[-1000:])
    return ran.stdout
