"""The Dockerfile: it is linted, installs what the project names, and its shell instructions are run in an empty folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import changefeed
from changefeed.spark_runtime import java
from tests.deploy.dockerfile import Build, Stage, ignored, read
from tests.deploy.files import DEFINITION, DEPLOY, ROOT, check_command, package_tool
from tests.example_files import copy_examples

STAGES = read(DEPLOY / "Dockerfile")
KERNEL, PACKAGE, IMAGE = STAGES
PATTERNS = [
    line
    for line in (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _json(keyword: str) -> list[str]:
    (value,) = IMAGE.values(keyword)
    command: list[str] = json.loads(value[value.index("[") :])
    return command


def _version(stage: Stage, image: str) -> str:
    match = re.match(rf"{image}:([\d.]+)-slim-", stage.image)
    assert match is not None, stage.image
    return match[1]


def test_hadolint_finds_no_fault() -> None:
    done = subprocess.run([package_tool("hadolint"), str(DEPLOY / "Dockerfile")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_versions_are_those_that_the_project_names() -> None:
    tested = {name.rpartition(" ")[2] for name in PROJECT["classifiers"] if "Python ::" in name}
    assert _version(IMAGE, "python") == _version(PACKAGE, "python") in tested
    cargo = tomllib.loads((ROOT / "kernel" / "Cargo.toml").read_text(encoding="utf-8"))["package"]
    assert _version(KERNEL, "rust") == cargo["rust-version"]
    (jre,) = re.findall(r"openjdk-(\d+)-jre-headless", " ".join(IMAGE.values("RUN")))
    assert int(jre) in java.SUPPORTED
    assert f'version="{changefeed.__version__}"' in IMAGE.values("LABEL")[0]


def test_all_stages_have_one_debian() -> None:
    assert {stage.image.rpartition("-")[2] for stage in STAGES} == {"bookworm"}, "or the kernel may need a newer libc"


def test_what_is_installed_is_named_by_the_project() -> None:
    (extras,) = re.findall(r"changefeed\[([\w,-]+)\]", " ".join(PACKAGE.values("RUN")))
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()


def test_commands_exist(tmp_path: Path) -> None:
    program = _json("ENTRYPOINT")
    assert program == ["tini", "--", "changefeed"]
    check_command(["changefeed", *_json("CMD")], tmp_path)
    check_command(_json("HEALTHCHECK"), tmp_path)
    assert _json("CMD")[-1] == _json("HEALTHCHECK")[2] == DEFINITION
    for command in re.findall(r"\bchangefeed ((?:bench|list)\b[^&]*)", " ".join(IMAGE.values("RUN"))):
        check_command(["changefeed", *command.split()], tmp_path)


def test_the_run_is_not_root_and_has_no_compiler() -> None:
    assert IMAGE.values("USER") == ["10001:10001"]
    assert [keyword for keyword, _ in IMAGE.instructions].index("USER") > max(
        number for number, (keyword, _) in enumerate(IMAGE.instructions) if keyword == "RUN"
    )
    assert not re.search(r"\b(gcc|cargo|rustc|build-essential|libc6-dev)\b", " ".join(IMAGE.values("RUN")))


def test_copied_files_exist_and_are_in_the_context() -> None:
    for stage in STAGES:
        for value in stage.values("COPY"):
            for source in [] if "--from=" in value else value.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert not ignored(source.rstrip("/"), PATTERNS), source


@pytest.mark.parametrize(
    "path, left_out",
    [
        ("src/changefeed/cli/__init__.py", False),
        ("src/changefeed/__pycache__/x.pyc", True),
        ("kernel/src/lib.rs", False),
        ("kernel/target/release/x", True),
        ("tests/conftest.py", True),
        (".git/config", True),
        ("deploy/compose/.env", True),
    ],
)
def test_the_context_has_what_is_built_alone(path: str, left_out: bool) -> None:
    assert ignored(path, PATTERNS) is left_out


def _locked(*packages: str) -> subprocess.CompletedProcess[str]:
    command = [str(DEPLOY / "locked.sh"), str(ROOT / "requirements.lock"), *packages]
    return subprocess.run(command, capture_output=True, text=True)


def test_locked_packages_are_printed_with_their_hashes() -> None:
    done = _locked("uv")
    assert re.match(r"uv==[\d.]+ \\\n    --hash=sha256:[0-9a-f]{64}", done.stdout)
    assert re.findall(r"(?m)^[a-z].*?==", done.stdout) == ["uv=="]


def test_a_package_that_is_not_locked_is_named() -> None:
    done = _locked("uv", "no-such-package")
    assert done.returncode == 1
    assert done.stderr == f"locked.sh: {ROOT}/requirements.lock has no package no-such-package\n"


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.xdist_group("processes")
def test_the_instructions_make_an_installation_that_runs_without_a_network(tmp_path: Path) -> None:
    cargo = shutil.which("cargo") or shutil.which("cargo", path=os.path.expanduser("~/.cargo/bin"))
    if cargo is None:
        pytest.skip("cargo is not installed, so the kernel's stage cannot be run")
    python = tmp_path / "python"  # stands for the Python of the image
    subprocess.run([sys.executable, "-m", "venv", str(python)], check=True)
    home = java.find().home
    path = f"{python / 'bin'}:{Path(cargo).parent}:{home / 'bin'}:/usr/bin:/bin"
    kept = {
        name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "CARGO_", "SSL_", "HTTP"))
    }
    environ = {**kept, "PATH": path, "JAVA_HOME": str(home), "HOME": os.path.expanduser("~")}
    build = Build(ROOT, tmp_path / "root", environ, PATTERNS)
    for stage in STAGES:
        build.run(stage)
    wheels = sorted(path.name for path in build.placed("/wheels").glob("*.whl"))
    assert [name.split("-")[:4:2] for name in wheels] == [["changefeed", "py3"], ["changefeed_kernel", "cp311"]]
    (archive,) = (build.placed("/opt/changefeed/share") / "classes").glob("*.jsa")
    assert archive.stat().st_size > 50_000_000
    _check_run(build, tmp_path)


def _check_run(build: Build, folder: Path) -> None:
    """Runs the example as the image's user would: with the image's variables, and an index that does not answer."""
    examples = copy_examples(folder)
    environ = {name: value for name, value in build.environ.items() if not name.startswith(("PIP_", "UV_"))}
    environ |= {"HOME": str(folder / "home"), "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}

    def changefeed(*arguments: str) -> str:
        command = [
            "changefeed",
            *(str(examples / "shop" / "pipeline.yaml") if one == DEFINITION else one for one in arguments),
        ]
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "kernel is not installed" not in done.stderr
        return done.stdout + done.stderr

    assert "debezium-mysql" in changefeed("list")
    assert '"epoch": 0' in changefeed(*_json("HEALTHCHECK")[1:]), "healthy before the first step"
    assert "705 rows" in changefeed(*_json("CMD"), "--once")
    assert '"applied": 705' in changefeed(*_json("HEALTHCHECK")[1:])
