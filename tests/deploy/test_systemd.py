"""The unit of systemd: it is valid, hardened, and restarts as the exit codes ask for."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, ROOT, check_command

UNIT = DEPLOY / "systemd" / "changefeed@.service"
# Keys of systemd 254: older ones ignore them, with a warning.
_NEW = ("RestartSteps", "RestartMaxDelaySec")


def _options() -> dict[str, list[str]]:
    options: dict[str, list[str]] = {}
    for name, value in re.findall(r"(?m)^(\w+)=(.*)$", UNIT.read_text(encoding="utf-8")):
        options.setdefault(name, []).append(value)
    return options


OPTIONS = _options()


@pytest.fixture
def analyze() -> str:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    return program


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    """An instance of the unit, whose program exists on this machine."""
    path = tmp_path / "changefeed@shop.service"
    path.write_text(
        UNIT.read_text(encoding="utf-8").replace("/opt/changefeed/bin/changefeed", shutil.which("true") or "")
    )
    return path


def test_systemd_accepts_the_unit(analyze: str, instance: Path) -> None:
    done = subprocess.run([analyze, "verify", str(instance)], capture_output=True, text=True)
    complaints = [line for line in done.stderr.splitlines() if not re.search(f"Unknown key.*({'|'.join(_NEW)})", line)]
    assert (done.returncode, [line for line in complaints if instance.name in line]) == (0, [])


def test_a_misspelled_option_would_be_noticed(analyze: str, instance: Path) -> None:
    instance.write_text(instance.read_text().replace("KillMode=", "KilMode="))
    done = subprocess.run([analyze, "verify", str(instance)], capture_output=True, text=True)
    assert "KilMode" in done.stderr


def test_the_run_is_confined(analyze: str, instance: Path) -> None:
    security = [analyze, "security", "--offline=yes", "--threshold=20", "--no-pager", str(instance)]
    done = subprocess.run(security, capture_output=True, text=True)
    if "unrecognized option" in done.stderr or "not supported" in done.stderr:
        pytest.skip("this systemd-analyze cannot judge a file")
    assert done.returncode == 0, done.stdout[-400:]  # exposure 2.0 or less, of 10


def test_the_unit_runs_a_command_that_exists(tmp_path: Path) -> None:
    (command,) = OPTIONS["ExecStart"]
    check_command(shlex.split(command), tmp_path)
    assert "%i" in command


def test_restarts_are_as_the_exit_codes_ask_for() -> None:
    page = (ROOT / "docs" / "guides" / "operations.md").read_text(encoding="utf-8")
    codes = {
        who: set(shown.split(", ")) for shown, who in re.findall(r"(?m)^\| ([\d, ]+) \| (nobody|a service|you)\b", page)
    }
    assert codes.keys() == {"nobody", "a service", "you"}
    assert {"0", *OPTIONS["SuccessExitStatus"][0].split()} == codes["nobody"]
    assert set(OPTIONS["RestartPreventExitStatus"][0].split()) == codes["you"]
    assert OPTIONS["Restart"] == ["on-failure"]


def test_sigterm_reaches_changefeed_alone_and_a_step_may_end() -> None:
    assert OPTIONS["KillMode"] == ["mixed"]
    assert OPTIONS["TimeoutStopSec"] == ["10min"]


def test_the_pause_between_restarts_grows() -> None:
    assert (OPTIONS["RestartSec"], OPTIONS["RestartMaxDelaySec"]) == (["5s"], ["5min"])
    assert int(OPTIONS["RestartSteps"][0]) > 0
    assert OPTIONS["StartLimitIntervalSec"] == ["0"], "or systemd gives up after five starts"
