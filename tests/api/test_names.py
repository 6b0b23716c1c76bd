"""`import changefeed`: its public names, their documentation, and the cost of the import."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import changefeed

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", changefeed.__all__)
def test_every_name_can_be_imported(name: str) -> None:
    value = getattr(changefeed, name)
    assert isinstance(value, ModuleType) == (name == "spark")
    assert name in ("__version__", "spark") or (value.__name__ == name and value.__module__.startswith("changefeed."))


def test_dir_has_the_public_names_and_no_other() -> None:
    assert dir(changefeed) == sorted(changefeed.__all__)
    assert len(set(changefeed.__all__)) == len(changefeed.__all__)


def test_the_lazy_table_and_the_type_checker_s_imports_are_the_same() -> None:
    tree = ast.parse(Path(changefeed.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imported = {
        name.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names
    }
    assert imported == {**changefeed._HOME, **dict.fromkeys(changefeed._SUBMODULES, "changefeed")}
    assert {*imported, "__version__"} == set(changefeed.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'changefeed' has no attribute 'raed'"):
        _ = changefeed.raed


def test_every_public_error_is_exported() -> None:
    from changefeed import errors

    public = {
        name for name, value in vars(errors).items()
        if not name.startswith("_") and inspect.isclass(value) and issubclass(value, errors.ChangefeedError)
    }  # fmt: skip
    assert public <= set(changefeed.__all__)


def test_public_functions_and_methods_are_documented() -> None:
    for name in changefeed.__all__:
        value = getattr(changefeed, name)
        parts = (
            [value, *(m for n, m in vars(value).items() if not n.startswith("_"))]
            if inspect.isclass(value)
            else [value]
        )
        for part in parts:
            if inspect.isfunction(part) or inspect.isclass(part) or isinstance(part, property):
                assert inspect.getdoc(part), f"{name}: {part}"


def modules_after(statement: str) -> set[str]:
    script = f"import sys, json; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stdout))


def test_importing_it_imports_nothing_but_the_standard_library() -> None:
    plain = modules_after("from importlib import import_module; from typing import TYPE_CHECKING, Any")
    assert {name for name in modules_after("import changefeed") - plain if not name.startswith("_")} == {"changefeed"}


@pytest.mark.parametrize("name", ["read", "write", "decoder", "encoder", "detect", "transcode", "list_protocols"])
def test_functions_on_records_need_no_spark_and_no_pandas(name: str) -> None:
    loaded = modules_after(f"import changefeed; changefeed.{name}")
    assert loaded & {"pyspark", "pandas", "py4j", "deltalake", "click", "rich"} == set()


def test_without_pyspark_a_pipeline_names_the_command_that_installs_it() -> None:
    script = """
import sys
sys.modules["pyspark"] = None  # as if it were not installed
import changefeed as cf
assert len(cf.list_protocols()) > 5
try:
    cf.Pipeline
except cf.MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    message = "changefeed.Pipeline needs packages that are not installed: pip install 'changefeed[spark]'\n"
    assert done.stdout == message


def test_the_demo_uses_public_names_alone() -> None:
    tree = ast.parse((ROOT / "examples" / "demo.py").read_text())
    named = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {name for name in named | plain if name.startswith("changefeed")} == {"changefeed"}
    used = {
        node.attr for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cf"
    }  # fmt: skip
    assert used <= set(changefeed.__all__)
