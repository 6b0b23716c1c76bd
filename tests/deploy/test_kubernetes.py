"""The manifests of Kubernetes: one run, its names fit together, it has few rights, and its commands exist."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.files import DEPLOY, check_command, check_kubernetes, go_tool, manifests, probes, read_yaml

FOLDER = DEPLOY / "kubernetes"
DEPLOYMENT: dict[str, Any] = read_yaml(FOLDER / "deployment.yaml")
POD: dict[str, Any] = DEPLOYMENT["spec"]["template"]["spec"]


def check_one_run(deployment: dict[str, Any]) -> None:
    """Checks that there is never a second run, which would fence the first."""
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})


def check_rights(pod: dict[str, Any]) -> None:
    """Checks what the policy `restricted` of Kubernetes asks for, and that the image stays as it is."""
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert mounted["tmp"] == "/tmp"


def check_commands(pod: dict[str, Any], folder: Path) -> None:
    """Checks the commands of the container and of its probes."""
    (container,) = pod["containers"]
    check_command(["changefeed", *container["args"]], folder)
    commands = list(probes(container))
    assert len(commands) == 2
    for command in commands:
        check_command(command, folder)
    assert "livenessProbe" not in container


def test_there_is_one_run() -> None:
    check_one_run(DEPLOYMENT)


def test_the_run_has_few_rights() -> None:
    check_rights(POD)


def test_its_commands_exist(tmp_path: Path) -> None:
    check_commands(POD, tmp_path)


def test_names_fit_together() -> None:
    made = read_yaml(FOLDER / "kustomization.yaml")
    assert sorted(made["resources"]) == sorted(
        path.name for path in FOLDER.glob("*.yaml") if path.name not in ("kustomization.yaml", "pipeline.yaml")
    )
    assert made["configMapGenerator"] == [{"name": "changefeed-shop", "files": ["pipeline.yaml"]}]
    assert made["images"][0]["name"] == POD["containers"][0]["image"]
    assert read_yaml(FOLDER / "volume.yaml")["metadata"]["name"] == "changefeed-shop"
    assert read_yaml(FOLDER / "serviceaccount.yaml")["metadata"]["name"] == POD["serviceAccountName"]
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    assert volumes["definition"]["configMap"]["name"] == "changefeed-shop"
    assert volumes["data"]["persistentVolumeClaim"]["claimName"] == "changefeed-shop"
    assert {mount["name"] for mount in POD["containers"][0]["volumeMounts"]} == volumes.keys()
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels


def test_the_container_has_the_memory_of_its_definition() -> None:
    heap = read_yaml(FOLDER / "pipeline.yaml")["spark"]["spark.driver.memory"]
    limits = POD["containers"][0]["resources"]["limits"]
    assert int(limits["memory"].removesuffix("Gi")) >= 2 + int(heap.removesuffix("g"))
    assert read_yaml(FOLDER / "pipeline.yaml")["spark"]["spark.master"] == f"local[{limits['cpu']}]"


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_kustomize_renders_what_kubernetes_accepts(tmp_path: Path) -> None:
    done = subprocess.run([go_tool("kustomize"), "build", str(FOLDER)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check_kubernetes(done.stdout, tmp_path)
    rendered = manifests(done.stdout)
    pod = rendered["Deployment"]["spec"]["template"]["spec"]
    (definition,) = [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume]
    assert rendered["ConfigMap"]["metadata"]["name"] == definition != "changefeed-shop", "a hash of the definition"
    assert rendered["ConfigMap"]["data"]["pipeline.yaml"] == (FOLDER / "pipeline.yaml").read_text(encoding="utf-8")
    assert {document["metadata"].get("namespace", "changefeed") for document in rendered.values()} == {"changefeed"}
