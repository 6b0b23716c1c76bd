"""A release has one version and its notes; the workflows run what the repository has."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import changefeed
from tests.docs.shown import ROOT
from tools import name_kernel, release_notes

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CHANGELOG = """# Changelog

## [Unreleased]

## [0.2.0] - 2027-01-31

### Added

- A thing.

## [0.1.0] - 2026-11-25

- The first.
"""


def test_every_file_has_the_version_of_the_package() -> None:
    assert list(release_notes.others(changefeed.__version__)) == []


def test_a_file_with_another_version_is_named() -> None:
    assert next(release_notes.others("9.9.9")) == f"pyproject.toml has version {changefeed.__version__}, not 9.9.9"


@pytest.mark.parametrize(
    "version, expected", [("0.2.0", "### Added\n\n- A thing.\n"), ("0.1.0", "- The first.\n")], ids=["newest", "last"]
)
def test_notes_are_the_section_of_the_version(version: str, expected: str) -> None:
    assert release_notes.notes(CHANGELOG, version) == expected


def test_a_version_without_a_dated_section_has_no_notes() -> None:
    with pytest.raises(ValueError, match=r"^CHANGELOG.md has no section `## \[0.3.0\] - YYYY-MM-DD`$"):
        release_notes.notes(CHANGELOG, "0.3.0")


def test_the_current_version_has_notes(capsys: pytest.CaptureFixture[str]) -> None:
    assert release_notes.main([changefeed.__version__]) == 0
    assert "### Added" in capsys.readouterr().out


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_scripts_and_targets_that_exist(path: Path) -> None:
    jobs: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert commands
    for name in re.findall(r"(?:\.ci|tools)/[\w.]+", " ".join(commands)):
        assert (ROOT / name).is_file(), name
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {target for command in commands for target in re.findall(r"\bmake (\w+)", command)} <= targets


def test_changes_are_tested_with_the_oldest_and_the_newest_python() -> None:
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]["test"]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    versions = re.findall(r'"Programming Language :: Python :: ([\d.]+)"', project)
    assert job["strategy"]["matrix"]["python"] == [versions[0], versions[-1]]
    assert job["steps"][-1]["run"] == "PYTHON=python .ci/run"


def test_a_release_requires_the_kernel_of_its_version() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert not re.search(r'"changefeed-kernel', project), "a checkout must install where no index has the kernel"
    before, after = (tomllib.loads(text)["project"] for text in (project, name_kernel.named(project)))
    added = [Requirement(line) for line in after["dependencies"] if line not in before["dependencies"]]
    assert [(one.name, str(one.specifier)) for one in added] == [("changefeed-kernel", f"=={changefeed.__version__}")]
    assert {**after, "dependencies": before["dependencies"]} == before


@pytest.mark.parametrize(
    "system, machine, implementation, required",
    [
        ("linux", "x86_64", "CPython", True),
        ("linux", "aarch64", "CPython", True),
        ("darwin", "arm64", "CPython", True),
        ("linux", "ppc64le", "CPython", False),
        ("win32", "AMD64", "CPython", False),
        ("linux", "x86_64", "PyPy", False),
    ],
)
def test_the_kernel_is_required_where_it_has_wheels(
    system: str, machine: str, implementation: str, required: bool
) -> None:
    marker = Requirement(name_kernel.requirement("0.1.0")).marker
    assert marker is not None
    machine_of_the_test = {
        "sys_platform": system,
        "platform_machine": machine,
        "platform_python_implementation": implementation,
    }
    assert marker.evaluate(machine_of_the_test) is required


def test_the_kernel_is_named_once() -> None:
    text = name_kernel.named((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    with pytest.raises(ValueError, match=r"^pyproject.toml has no version, or names the kernel already$"):
        name_kernel.named(text)


def test_wheels_are_built_for_every_platform_that_requires_them() -> None:
    jobs: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))[
        "jobs"
    ]
    built = {(one["target"], one["libc"]) for one in jobs["kernel"]["strategy"]["matrix"]["include"]}
    linux = {(machine, libc) for machine in ("x86_64", "aarch64") for libc in ("auto", "musllinux_1_2")}
    assert built == linux | {("universal2-apple-darwin", "auto")}
    steps = [step["run"] for step in jobs["package"]["steps"] if "run" in step]
    assert steps.index("python tools/name_kernel.py") < next(
        n for n, step in enumerate(steps) if "hatchling build" in step
    )
    assert set(jobs["publish"]["needs"]) == jobs.keys() - {"publish", "release"}
