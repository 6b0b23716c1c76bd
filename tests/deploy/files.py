"""The files in `deploy/`, and the tools that check them.

`hadolint` and `check-jsonschema` are packages of the development group. Tools in Go are built by `go install` when a nightly test
needs one for the first time, and are kept in the cache of the Spark jars.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from changefeed.cli import changefeed
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.load import load
from changefeed.spark_runtime import ivy

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DEFINITION = "/etc/changefeed/pipeline.yaml"
_GO = {
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12",
    "helm": "helm.sh/helm/v3/cmd/helm@v3.19.5",
    "kustomize": "sigs.k8s.io/kustomize/kustomize/v5@v5.7.1",
}
_KUBERNETES_VALIDATE = "kubernetes-validate==1.37.0"
_NAME = re.compile(r"\$\{(\w+)\}")


def package_tool(name: str) -> str:
    """Returns the program of a package of the development group."""
    beside = Path(sys.executable).parent / name
    program = str(beside) if beside.is_file() else shutil.which(name)
    assert program, f"{name} is not installed: make install"
    return program


def go_tool(name: str) -> str:
    """Returns a program in Go; builds it if it is not in the cache."""
    module, _, version = _GO[name].rpartition("@")
    folder = ivy.cache_folder() / "tools" / f"{name}-{version}"
    program = folder / name
    if not program.is_file():
        if shutil.which("go") is None:
            pytest.skip(f"{name} is built with Go, which is not installed")
        environ = os.environ | {"GOBIN": str(folder), "GOFLAGS": ""}
        subprocess.run(["go", "install", f"{module}@{version}"], env=environ, check=True, capture_output=True)
    return str(program)


def check_kubernetes(manifests: str, folder: Path) -> None:
    """Checks manifests against the schemas of Kubernetes: unknown fields and wrong types are errors."""
    venv = ivy.cache_folder() / "tools" / _KUBERNETES_VALIDATE
    program = venv / "bin" / "kubernetes-validate"
    if not program.is_file():  # 110 MB of schemas
        uv = [sys.executable, "-m", "uv", "--quiet"]
        subprocess.run([*uv, "venv", "--clear", str(venv)], check=True)
        subprocess.run(
            [*uv, "pip", "install", "--python", str(venv / "bin" / "python"), _KUBERNETES_VALIDATE], check=True
        )
    file = folder / "manifests.yaml"
    file.write_text(manifests, encoding="utf-8")
    done = subprocess.run([str(program), "--strict", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def read_yaml(path: Path) -> Any:
    """The content of a YAML file with one document."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def manifests(text: str) -> dict[str, dict[str, Any]]:
    """The documents of manifests, by their kind; each kind occurs once."""
    documents = [document for document in yaml.safe_load_all(text) if document]
    by_kind = {document["kind"]: document for document in documents}
    assert len(by_kind) == len(documents)
    return by_kind


def variables(text: str) -> set[str]:
    """The names of `${NAME}` in a text without its comments."""
    return set(_NAME.findall(re.sub(r"(?m)(^|\s)#.*$", "", text)))


def loaded(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Definition:
    """Loads a definition as a run does, with a value for each of its variables."""
    for name in variables(text):
        monkeypatch.setenv(name, f"value-of-{name.lower()}")
    path = folder / "pipeline.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path)


def check_command(command: Sequence[str], folder: Path) -> None:
    """Checks a command line of `changefeed`: the command exists, and takes these options and arguments."""
    program, name, *arguments = command
    assert Path(program).name == "changefeed"
    definition = folder / "definition.yaml"
    definition.touch()
    arguments = [str(definition) if argument.startswith("/etc/changefeed/") else argument for argument in arguments]
    context = click.Context(changefeed)
    known = changefeed.get_command(context, name)
    assert known is not None
    while isinstance(known, click.Group):
        name, *arguments = arguments
        known = known.get_command(context, name)
        assert known is not None
    known.make_context(name, arguments, parent=context)


def probes(container: dict[str, Any]) -> Iterator[list[str]]:
    """The commands of a container's probes."""
    for name, probe in container.items():
        if name.endswith("Probe"):
            yield probe["exec"]["command"]


RULES = DEPLOY / "prometheus" / "changefeed.rules.yml"
