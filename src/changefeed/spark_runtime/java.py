"""Finds a Java for Spark 4.1, or names the command that installs one.

Spark 4.1 needs Java 17 or 21: older versions lack classes that it uses, and on 25 it fails (the security manager that Hadoop
calls was removed). Several may be installed; the first supported one is used, in this order: `JAVA_HOME`, `PATH`, the usual
folders of Debian, RHEL, macOS, Homebrew and SDKMAN.

`python -m changefeed.spark_runtime.java` prints it; the exit code is 1 if there is none.
"""

from __future__ import annotations

import glob
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from changefeed.errors import ConfigError

SUPPORTED = (17, 21)

# Where package managers put a JAVA_HOME; a pattern may match several, and 17 sorts before 21.
PLACES = (
    "/usr/lib/jvm/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "/opt/java/*",
)

_RELEASE_VERSION = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_PRINTED_VERSION = re.compile(r'version "([^"]+)"')


@dataclass(frozen=True, slots=True)
class Java:
    """One installed Java.

    Attributes:
        home: the value for `JAVA_HOME`.
        version: the full version, such as `17.0.15`.
    """

    home: Path
    version: str

    @property
    def major(self) -> int:
        """The major version: 17 for `17.0.15`, 8 for `1.8.0_392`."""
        return int(re.split(r"\D", self.version.removeprefix("1."), maxsplit=1)[0])

    @property
    def executable(self) -> Path:
        """The program to start."""
        return self.home / "bin" / "java"


def find(environ: Mapping[str, str] | None = None, places: Iterable[str] = PLACES) -> Java:
    """Returns the first supported Java.

    Raises:
        ConfigError: no supported Java was found; the message lists the installed ones, and a command that installs one.
    """
    unfit: dict[Path, Java] = {}
    for java in _installed(os.environ if environ is None else environ, places):
        if java.major in SUPPORTED:
            return java
        unfit[java.home] = java
    others = ", ".join(f"{java.version} in {java.home}" for java in unfit.values())
    raise ConfigError(
        f"Spark 4.1 needs Java {' or '.join(map(str, SUPPORTED))}; "
        f"{f'found only {others}' if others else 'no Java was found'}. {install_hint()}"
    )


def passed_over(chosen: Java, environ: Mapping[str, str] | None = None) -> str | None:
    """Returns a sentence if JAVA_HOME names another Java than the chosen one; None if it does not."""
    named = (os.environ if environ is None else environ).get("JAVA_HOME")
    if not named or Path(named).resolve() == chosen.home.resolve():
        return None
    return f"JAVA_HOME is {named}, which has no Java {' or '.join(map(str, SUPPORTED))}: {chosen.home} is used"


def install_hint(system: str | None = None, os_release: str | None = None, *, root: bool | None = None) -> str:
    """Returns a sentence with the command that installs Java on this system.

    Args:
        system: the system's name, as in `platform.system()`.
        os_release: the text of `/etc/os-release`.
        root: whether the user does not need `sudo`.
    """
    system = platform.system() if system is None else system
    sudo = "" if (os.geteuid() == 0 if root is None else root) else "sudo "
    if system == "Darwin":
        return "Install it with: brew install openjdk@17"
    if os_release is None:
        os_release = _read(Path("/etc/os-release"))
    names = set(re.findall(r"[a-z0-9.]+", " ".join(re.findall(r"^ID(?:_LIKE)?=(.*)$", os_release, re.MULTILINE))))
    if names & {"debian", "ubuntu"}:
        # Debian 13 dropped 17.
        debian = re.search(r'^VERSION_ID="?(\d+)', os_release, re.MULTILINE)
        major = 21 if "ubuntu" not in names and debian and int(debian[1]) >= 13 else 17
        return f"Install it with: {sudo}apt-get install -y openjdk-{major}-jre-headless"
    if names & {"rhel", "fedora", "centos", "amzn"}:
        return f"Install it with: {sudo}dnf install -y java-17-openjdk-headless"
    return "Install a Java 17 runtime and point JAVA_HOME at it."


def _installed(environ: Mapping[str, str], places: Iterable[str]) -> Iterator[Java]:
    for home in _homes(environ, places):
        if os.access(home / "bin" / "java", os.X_OK) and (version := _version(home)):
            yield Java(home, version)


def _homes(environ: Mapping[str, str], places: Iterable[str]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        # Debian's chain of links ends at <home>/bin/java. On macOS /usr/bin/java is a stub, and /usr is not a JAVA_HOME.
        yield Path(on_path).resolve().parent.parent
    for place in places:
        yield from map(Path, sorted(glob.glob(os.path.expanduser(place))))


def _version(home: Path) -> str | None:
    """Returns the version of a home; None if it does not start, or does not print a version."""
    match = _RELEASE_VERSION.search(_read(home / "release"))
    if match is None:
        try:
            printed = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return None
        match = _PRINTED_VERSION.search(printed.stderr)
    return match[1] if match and match[1][0].isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def main() -> int:
    """Prints the Java, or the reason why there is none."""
    try:
        java = find()
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Java {java.version} in {java.home}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
