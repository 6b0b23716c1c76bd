"""The Helm chart: its values fit their schema, and what it renders is accepted, and equal to the manifests without Helm."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import changefeed
from tests.deploy.files import DEPLOY, check_kubernetes, go_tool, loaded, manifests, package_tool, read_yaml
from tests.deploy.pods import POD, check_commands, check_one_run, check_rights

CHART = DEPLOY / "helm" / "changefeed"
_VERSION = ["--kube-version", "1.34.0"]
built = [pytest.mark.nightly, pytest.mark.timeout(3600)]  # Helm takes minutes to build


def _fits(values: dict[str, Any], folder: Path) -> str:
    """Checks values against the chart's schema; returns the errors."""
    file = folder / "values.json"
    file.write_text(json.dumps(values))
    schema = str(CHART / "values.schema.json")
    done = subprocess.run(
        [package_tool("check-jsonschema"), "--schemafile", schema, str(file)], capture_output=True, text=True
    )
    return "" if done.returncode == 0 else done.stdout


def test_the_values_fit_their_schema(tmp_path: Path) -> None:
    assert _fits(read_yaml(CHART / "values.yaml"), tmp_path) == ""


@pytest.mark.parametrize(
    "name, value",
    [("replicas", 2), ("image", {}), ("definition", {"source": {}}), ("terminationGracePeriodSeconds", 1)],
)
def test_values_that_cannot_work_are_refused(name: str, value: object, tmp_path: Path) -> None:
    assert _fits({**read_yaml(CHART / "values.yaml"), name: value}, tmp_path) != ""


def test_the_schema_names_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert schema["properties"].keys() - {"global"} == read_yaml(CHART / "values.yaml").keys()


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = read_yaml(CHART / "Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (changefeed.__version__,) * 2


def _rendered(*arguments: str) -> str:
    command = [go_tool("helm"), "template", "shop", str(CHART), *_VERSION, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestRendered:
    pytestmark = built

    def test_helm_finds_no_fault(self) -> None:
        done = subprocess.run([go_tool("helm"), "lint", "--strict", str(CHART)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout

    @pytest.mark.parametrize(
        "arguments, kinds",
        [
            ((), {"ConfigMap", "Deployment", "PersistentVolumeClaim", "ServiceAccount"}),
            (
                ("--set", "secret.values.KAFKA_PASSWORD=x"),
                {"ConfigMap", "Deployment", "PersistentVolumeClaim", "Secret", "ServiceAccount"},
            ),
            (
                (
                    *("--set", "secret.existing=kafka,persistence.enabled=false,serviceAccount.create=false"),
                    *("--set", "extraEnv[0].name=AWS_REGION,extraEnv[0].value=eu-central-1,imagePullSecrets[0].name=r"),
                    *("--set-string", "podLabels.team=data,podAnnotations.a=b,nodeSelector.disk=fast"),
                ),
                {"ConfigMap", "Deployment"},
            ),
        ],
        ids=["defaults", "a secret of the chart", "an object store"],
    )
    def test_kubernetes_accepts_what_it_renders(
        self, arguments: tuple[str, ...], kinds: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = _rendered(*arguments)
        check_kubernetes(text, tmp_path)
        rendered = manifests(text)
        assert rendered.keys() == kinds
        deployment = rendered["Deployment"]
        check_one_run(deployment)
        check_rights(deployment["spec"]["template"]["spec"])
        check_commands(deployment["spec"]["template"]["spec"], tmp_path)
        definition = rendered["ConfigMap"]["data"]["pipeline.yaml"]
        assert loaded(definition, tmp_path, monkeypatch).pipeline.name == "shop"

    def test_the_container_is_that_of_the_manifests(self) -> None:
        text = _rendered("--set", "secret.existing=changefeed-shop,serviceAccount.name=changefeed-shop")
        pod = manifests(text)["Deployment"]["spec"]["template"]["spec"]
        (container,), (theirs,) = pod.pop("containers"), [dict(one) for one in POD["containers"]]
        assert container.pop("image") == f"registry.example/changefeed:{changefeed.__version__}"
        theirs.pop("image")
        assert container == theirs
        assert pod == {name: value for name, value in POD.items() if name != "containers"}

    def test_a_change_of_the_definition_restarts_the_run(self) -> None:
        first, second = (
            manifests(text)["Deployment"]["spec"]["template"]["metadata"]["annotations"]
            for text in (_rendered(), _rendered("--set", "definition.pipeline.consistency=key"))
        )
        assert first["checksum/definition"] != second["checksum/definition"]

    @pytest.mark.parametrize(
        "setting, message",
        [
            ("replicas=2", "additional properties 'replicas' not allowed"),
            ("secret.existing=a,secret.values.b=c", "secret.existing and secret.values are both set"),
        ],
    )
    def test_values_that_cannot_work_are_named(self, setting: str, message: str) -> None:
        command = [go_tool("helm"), "template", "shop", str(CHART), *_VERSION, "--set", setting]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode != 0
        assert message in done.stderr
