"""The deployment for Kubernetes as it is in the repository, and what every deployment must have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.deploy.files import DEPLOY, check_command, probes, read_yaml

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
