"""The package as a user installs it: a wheel and pip, in an empty environment, away from the repository's sources."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

import changefeed
from tests.example_files import copy_examples
from tools import name_kernel

ROOT = Path(__file__).parents[1]
_TUTORIAL = """
import doctest, changefeed
print(changefeed.__file__)
result = doctest.testmod(changefeed, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
assert result.attempted and not result.failed
"""
_CORE = """
import changefeed as cf
assert sum(1 for _ in cf.read("examples/shop/history.jsonl.gz", "ticdc-open")) == 948
try:
    cf.Pipeline.load("examples/shop/pipeline.yaml").run(once=True)
except cf.MissingExtraError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this folder."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_has_the_package_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    inside = {name for name in names if not name.startswith("changefeed-")}
    sources = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "changefeed").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and "vectors" not in path.parts
    }
    assert inside == sources
    assert {
        "changefeed/py.typed",
        "changefeed/spark_runtime/log4j2.properties",
        "changefeed/sinks/delta/LinkLogStore.java",
        "changefeed/api/logs.py",
    } <= inside
    of_page = {
        name for name in inside if name.startswith(("changefeed/monitor/templates/", "changefeed/monitor/static/"))
    }
    assert {Path(name).suffix for name in of_page} == {".html", ".css", ".js"}
    assert {
        name for name in inside - of_page if Path(name).suffix not in (".java", ".md", ".properties", ".py", ".typed")
    } == set()


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < 2_000_000


@pytest.mark.heavy
@pytest.mark.slow
def test_without_extras_logs_are_listed_decoded_encoded_detected_and_translated(wheel: Path, tmp_path: Path) -> None:
    copy_examples(tmp_path)
    uv = [sys.executable, "-m", "uv", "--quiet"]
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    subprocess.run([*uv, "venv", "--python", sys.executable, str(tmp_path / "venv")], env=env, check=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [*uv, "pip", "install", "--python", str(python), "--constraint", str(_versions(tmp_path)), str(wheel)]
    subprocess.run(install, env=env, check=True)

    def changefeed(*args: str) -> bytes:
        command = [str(python), "-m", "changefeed.cli", *args]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    log, open_protocol = "examples/shop/history.jsonl.gz", ("--protocol", "ticdc-open")
    assert b"debezium-mysql" in changefeed("list")
    assert b"ticdc-open" in changefeed("detect", log)
    events = changefeed("decode", log, *open_protocol, "--json")
    (tmp_path / "events.jsonl").write_bytes(events)
    changefeed("encode", "events.jsonl", *open_protocol, "--out", "again.jsonl")
    assert changefeed("decode", "again.jsonl", *open_protocol, "--json") == events
    target = ("--to", "tencent-dts", "--allow-loss", "resolved", "--out", "dts.jsonl")
    changefeed("transcode", log, "--from", "ticdc-open", *target)
    assert b"shop.orders" in changefeed("decode", "dts.jsonl", "--protocol", "tencent-dts")


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.xdist_group("processes")
def test_an_installed_package_does_the_tutorial_and_the_demo(wheel: Path, tmp_path: Path) -> None:
    examples = copy_examples(tmp_path)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"

    def run(*args: object) -> str:
        env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        env["PATH"] = f"{python.parent}{os.pathsep}{env['PATH']}"
        command = [str(python), *map(str, args)]
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, encoding="utf-8", check=False
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", _versions(tmp_path))
    run(*install, wheel)
    assert run("-c", _CORE).strip().endswith("pip install 'changefeed[spark]'")
    run(*install, f"{wheel}[spark]", *sorted((ROOT / "build" / "kernel-wheels").glob("*.whl")))
    printed = run("-c", _TUTORIAL)
    assert printed.startswith(str(tmp_path / "venv"))
    for made in ("copy.parquet", "dts.jsonl.gz"):
        assert (tmp_path / made).is_file()
    assert "705 rows and 13 schema changes applied" in run(examples / "demo.py")


def _versions(folder: Path) -> Path:
    """The locked versions without hashes, which pip would also require for the wheels that are built here."""
    locked = re.findall(
        r"^[a-z0-9-]+==[^\s;\\]+(?: ;[^\\\n]*)?", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    )
    file = folder / "versions.txt"
    file.write_text("\n".join(locked))
    return file


# extra -> a script that needs it, and the feature that its error names without it
_NEEDING = {
    "spark": ("import changefeed.spark", "changefeed.spark"),
    "kafka": (
        "from changefeed.sources.kafka.librdkafka import PlainBrokers\n"
        "PlainBrokers({'bootstrap.servers': '127.0.0.1:9'}, 'Reading Kafka')",
        "Reading Kafka",
    ),
    "schema-registry": (
        "cf.decoder('ticdc-avro', schema_registry='http://127.0.0.1:9')",
        "schema-registry over HTTP",
    ),
    "ticdc": (
        "cf.decoder('ticdc-open', large_message_handle_option='claim-check', claim_check_storage_uri='memory://claims')",
        "claim-check-storage-uri memory://",
    ),
    "aws": (
        "import os\nfrom changefeed.storage import s3\n"
        "os.environ |= {'AWS_ACCESS_KEY_ID': 'key', 'AWS_SECRET_ACCESS_KEY': 'secret'}\n"
        "s3._by_boto3(None)",
        "Profile 'default', with a role, single sign-on or a process,",
    ),
}


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "extras, provided",
    [
        ("", set()),
        ("spark", {"spark", "ticdc"}),
        ("kafka", {"kafka"}),
        ("schema-registry", {"kafka", "schema-registry"}),
        ("ticdc", {"ticdc"}),
        ("spark,aws", {"spark", "ticdc", "aws"}),
        ("all", set(_NEEDING)),
    ],
    ids=["none", "spark", "kafka", "schema-registry", "ticdc", "spark,aws", "all"],
)
def test_an_extra_brings_what_it_is_for_and_what_lacks_is_named(
    extras: str, provided: set[str], wheel: Path, tmp_path: Path
) -> None:
    python = _environment(tmp_path, f"{wheel}[{extras}]" if extras else str(wheel))
    for extra, (script, feature) in _NEEDING.items():
        printed = _printed(
            python,
            tmp_path,
            f"import changefeed as cf\ntry:\n{_indented(script)}\nexcept cf.MissingExtraError as error:\n    print(error)",
        )
        lacking = f"{feature} needs packages that are not installed: pip install 'changefeed[{extra}]'\n"
        assert printed == ("" if extra in provided else lacking), extra


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_release_brings_the_kernel_and_names_it_where_it_lacks(tmp_path: Path) -> None:
    kernels = ROOT / "build" / "kernel-wheels"
    if not list(kernels.glob("*.whl")):
        pytest.skip("there is no wheel of the kernel in build/kernel-wheels: make install")
    sources = tmp_path / "sources"
    shutil.copytree(ROOT / "src", sources / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "LICENSE"):
        shutil.copy2(ROOT / name, sources)
    project = name_kernel.named((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (sources / "pyproject.toml").write_text(project, encoding="utf-8")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=sources, check=True, capture_output=True)
    (released,) = tmp_path.glob("changefeed-*.whl")
    copy_examples(tmp_path)

    python = _environment(tmp_path, str(released), "--find-links", str(kernels))
    decode = [
        str(python),
        "-m",
        "changefeed.cli",
        "decode",
        "examples/shop/history.jsonl.gz",
        "--protocol",
        "ticdc-open",
    ]
    quick = subprocess.run(decode, cwd=tmp_path, env=_outside(), capture_output=True, text=True, check=True)
    assert quick.stderr == ""
    uninstall = [
        sys.executable,
        "-m",
        "uv",
        "--quiet",
        "pip",
        "uninstall",
        "--python",
        str(python),
        "changefeed-kernel",
    ]
    subprocess.run(uninstall, env=_outside(), check=True)
    slow = subprocess.run(decode, cwd=tmp_path, env=_outside(), capture_output=True, text=True, check=True)
    assert slow.stdout == quick.stdout
    assert slow.stderr.endswith(f"slower: run `pip install changefeed-kernel=={changefeed.__version__}`\n")


def _outside() -> dict[str, str]:
    """The environment without what would lead to this checkout."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def _environment(folder: Path, *install: str) -> Path:
    """Makes an empty environment and installs into it, with the locked versions; returns its Python."""
    uv = [sys.executable, "-m", "uv", "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, str(folder / "venv")], env=_outside(), check=True)
    python = folder / "venv" / "bin" / "python"
    command = [*uv, "pip", "install", "--python", str(python), "--constraint", str(_versions(folder)), *install]
    subprocess.run(command, env=_outside(), check=True)
    return python


def _printed(python: Path, folder: Path, script: str) -> str:
    """The output of a script."""
    done = subprocess.run([str(python), "-c", script], cwd=folder, env=_outside(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _indented(script: str) -> str:
    return textwrap.indent(script, "    ")
