from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from changefeed.errors import ConfigError
from changefeed.spark_runtime import java

NOWHERE = {"PATH": ""}


def install(home: Path, version: str, *, release: bool = True) -> Path:
    """A home like a package manager's; its program only prints its version on stderr, as Java does."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="Debian"\nJAVA_VERSION="{version}"\n')
    return home


def test_the_java_of_this_machine_fits() -> None:
    installed = java.find()
    assert installed.major in (17, 21)
    assert os.access(installed.executable, os.X_OK)


@pytest.mark.parametrize(
    "version, major",
    [("17.0.15", 17), ("21", 21), ("21.0.1+12", 21), ("25-ea", 25), ("1.8.0_392", 8), ("11.0.2", 11)],
)
def test_major_is_the_release(version: Any, major: Any) -> None:
    assert java.Java(Path("/x"), version).major == major


def test_java_home_comes_before_path_and_the_usual_places(tmp_path: Path) -> None:
    at_home, on_path, usual = (install(tmp_path / name, "17.0.1") for name in ("home", "path", "usual"))
    environ = {"JAVA_HOME": str(at_home), "PATH": str(on_path / "bin")}
    assert java.find(environ, [str(usual)]).home == at_home
    assert java.find({"PATH": str(on_path / "bin")}, [str(usual)]).home == on_path
    assert java.find(NOWHERE, [str(usual)]).home == usual


def test_a_java_that_does_not_fit_is_skipped(tmp_path: Path) -> None:
    new = install(tmp_path / "25", "25.0.3")
    fits = install(tmp_path / "jvm" / "java-21", "21.0.4")
    chosen = java.find({"JAVA_HOME": str(new), "PATH": str(new / "bin")}, [f"{tmp_path}/jvm/*"])
    assert (chosen.home, chosen.version) == (fits, "21.0.4")


def test_a_java_home_that_is_passed_over_is_named(tmp_path: Path) -> None:
    new, fits = install(tmp_path / "25", "25.0.3"), install(tmp_path / "java-21", "21.0.4")
    (tmp_path / "linked").symlink_to(fits)
    chosen = java.find({"JAVA_HOME": str(new)}, [str(fits)])
    assert java.passed_over(chosen, {"JAVA_HOME": str(new)}) == (
        f"JAVA_HOME is {new}, which has no Java 17 or 21: {fits} is used"
    )
    assert java.passed_over(chosen, {"JAVA_HOME": str(tmp_path / "linked")}) is None
    assert java.passed_over(chosen, NOWHERE) is None


def test_the_older_release_is_taken_first(tmp_path: Path) -> None:
    for major in (21, 17):
        install(tmp_path / f"java-{major}-openjdk", f"{major}.0.1")
    assert java.find(NOWHERE, [f"{tmp_path}/*"]).major == 17


def test_links_on_the_path_are_followed_to_the_home(tmp_path: Path) -> None:
    home = install(tmp_path / "jvm", "17.0.2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert java.find({"PATH": str(tmp_path / "bin")}, []).home == home


def test_without_a_release_file_the_program_is_asked(tmp_path: Path) -> None:
    assert (
        java.find({"JAVA_HOME": str(install(tmp_path / "j", "17.0.9", release=False)), "PATH": ""}, []).version
        == "17.0.9"
    )


def test_a_folder_without_a_working_program_is_skipped(tmp_path: Path) -> None:
    broken = install(tmp_path / "broken", "17.0.9", release=False)
    (broken / "bin" / "java").write_text("#!/bin/sh\necho 'The operation couldn’t be completed' >&2; exit 1\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"^Spark 4\.1 needs Java 17 or 21; no Java was found\. Install it with: "):
        java.find({"JAVA_HOME": str(tmp_path / "empty"), "PATH": ""}, [str(broken)])


def test_the_error_names_the_javas_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "install_hint", lambda: "Do this.")
    old, new = install(tmp_path / "a", "11.0.2"), install(tmp_path / "b", "25.0.3")
    with pytest.raises(ConfigError) as caught:
        java.find({"JAVA_HOME": str(old), "PATH": str(new / "bin")}, [str(new)])
    assert str(caught.value) == (
        f"Spark 4.1 needs Java 17 or 21; found only 11.0.2 in {old}, 25.0.3 in {new}. Do this."
    )


DEBIAN_12 = 'ID=debian\nVERSION_ID="12"\n'
DEBIAN_13 = 'ID=debian\nVERSION_ID="13"\n'
UBUNTU = 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n'
ROCKY = 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n'


@pytest.mark.parametrize(
    "system, os_release, root, hint",
    [
        ("Linux", DEBIAN_12, True, "Install it with: apt-get install -y openjdk-17-jre-headless"),
        ("Linux", DEBIAN_12, False, "Install it with: sudo apt-get install -y openjdk-17-jre-headless"),
        ("Linux", DEBIAN_13, True, "Install it with: apt-get install -y openjdk-21-jre-headless"),
        ("Linux", UBUNTU, False, "Install it with: sudo apt-get install -y openjdk-17-jre-headless"),
        ("Linux", ROCKY, True, "Install it with: dnf install -y java-17-openjdk-headless"),
        ("Linux", "ID=arch\n", True, "Install a Java 17 runtime and point JAVA_HOME at it."),
        ("Darwin", "", False, "Install it with: brew install openjdk@17"),
    ],
)
def test_the_hint_is_the_command_of_the_system(system: Any, os_release: Any, root: Any, hint: Any) -> None:
    assert java.install_hint(system, os_release, root=root) == hint


def test_run_as_a_program_it_prints_the_java(capsys: pytest.CaptureFixture[str]) -> None:
    assert java.main() == 0
    assert re.fullmatch(r"Java (17|21)[\d.+]* in /\S+\n", capsys.readouterr().out)
