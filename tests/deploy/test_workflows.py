"""The workflows of the repository are valid."""

from __future__ import annotations

import subprocess

import pytest

from tests.deploy.files import ROOT, go_tool, package_tool

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_workflows_fit_their_schema() -> None:
    schema = [package_tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*schema, *map(str, WORKFLOWS)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_actionlint_finds_no_fault() -> None:
    done = subprocess.run([go_tool("actionlint"), *map(str, WORKFLOWS)], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
