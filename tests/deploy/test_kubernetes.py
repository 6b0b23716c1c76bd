"""The manifests of Kubernetes: one run, its names fit together, it has few rights, and its commands exist."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.deploy.files import check_kubernetes, go_tool, manifests, read_yaml
from tests.deploy.pods import DEPLOYMENT, FOLDER, POD, check_commands, check_one_run, check_rights


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
