"""The definitions in `deploy/` can be loaded, and the variables that they take are given to the run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.deploy.files import DEPLOY, ROOT, loaded, read_yaml, variables

_GUIDE = (ROOT / "docs" / "guides" / "deploy.md").read_text(encoding="utf-8")


def _values() -> str:
    return yaml.safe_dump(read_yaml(DEPLOY / "helm" / "changefeed" / "values.yaml")["definition"])


DEFINITIONS = {
    **{path.parent.name: path.read_text(encoding="utf-8") for path in sorted(DEPLOY.glob("*/pipeline.yaml"))},
    "helm": _values(),
}


def test_each_way_has_a_definition() -> None:
    assert sorted(DEFINITIONS) == ["compose", "helm", "kubernetes", "systemd"]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_definition_can_be_loaded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    definition = loaded(DEFINITIONS[name], tmp_path, monkeypatch)
    assert definition.pipeline.name == "shop"
    assert str(definition.sink.path).startswith("/var/lib/changefeed/lake")


@pytest.mark.parametrize("name", DEFINITIONS)
def test_no_definition_has_a_secret_in_it(name: str) -> None:
    for secret in re.findall(r"(?i)password=\\?\"?([^\"\\;]+)|://[^:/\s]+:([^@\s]+)@", DEFINITIONS[name]):
        assert re.fullmatch(r"\$\{\w+\}", "".join(secret)), secret


def test_the_variables_of_the_unit_are_in_its_file() -> None:
    file = (DEPLOY / "systemd" / "pipeline.env").read_text(encoding="utf-8")
    assert set(re.findall(r"(?m)^(\w+)=", file)) == variables(DEFINITIONS["systemd"])


def test_the_variables_of_compose_are_given_to_the_container() -> None:
    service = read_yaml(DEPLOY / "compose" / "compose.yaml")["services"]["changefeed"]
    assert set(service["environment"]) == variables(DEFINITIONS["compose"])


def test_the_guide_makes_the_secret_with_every_variable() -> None:
    command = re.search(r"kubectl .*create secret generic changefeed-shop((?:.*\\\n)*.*)", _GUIDE)
    assert command is not None
    assert set(re.findall(r"--from-literal=(\w+)=", command[1])) == variables(DEFINITIONS["kubernetes"])
    files = re.findall(r"--from-file=([\w.-]+)", command[1])
    assert re.findall(r"/etc/changefeed/secrets/([\w.-]+)", DEFINITIONS["kubernetes"]) == files


def test_the_definitions_of_the_guide_can_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [block for block in re.findall(r"(?ms)^```yaml\n(.*?)^```", _GUIDE) if "definition:" in block]
    assert blocks
    for block in blocks:
        loaded(yaml.safe_dump(yaml.safe_load(block)["definition"]), tmp_path, monkeypatch)
