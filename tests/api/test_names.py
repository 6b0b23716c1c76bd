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
from tests.example_files import copy_examples

ROOT = Path(__file__).parents[2]
PUBLIC = """
AccessError ChangefeedError Check CheckReport Column ColumnType ConfigError DamagedError DeadLetter Decoded Decoder DetectedTopic
Encoder EventExplanation EventPipeline EventProgress EventStatus EventSummary Events ExplainedColumn ExplainedEvents
ExplainedTable Explanation FencedError Heartbeat Instant
KeptDeadLetter
MissingExtraError NeedsSparkError Pipeline Position Progress ProtocolError ProtocolFit ProtocolInfo PublishedCut Record
Resolved ResourceError RowChange SchemaChange SchemaError SchemaRegistryError SinkError SourceError Status
Summary Table TableBatch TableShape TableVersion TransactionMark Transcoded TruncatedError UnknownRowsError UnsupportedError
Written __version__ decoder detect encoder list_protocols read spark transcode write
"""


@pytest.mark.parametrize("name", changefeed.__all__)
def test_every_name_can_be_imported(name: str) -> None:
    value = getattr(changefeed, name)
    assert isinstance(value, ModuleType) == (name == "spark")
    assert name in ("__version__", "spark") or (value.__name__ == name and value.__module__.startswith("changefeed."))


def test_the_public_names_are_these() -> None:
    assert sorted(changefeed.__all__) == PUBLIC.split()


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


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["read", "write", "decoder", "encoder", "detect", "transcode", "list_protocols"])
def test_functions_on_records_need_no_spark_and_no_pandas(name: str) -> None:
    loaded = modules_after(f"import changefeed; changefeed.{name}")
    assert loaded & {"pyspark", "pandas", "py4j", "deltalake", "click", "rich"} == set()


WITHOUT_PYSPARK = """
import sys
sys.modules["pyspark"] = sys.modules["py4j"] = None  # as if they were not installed
import changefeed as cf
pipeline = cf.Pipeline.load(sys.argv[1])
assert pipeline.definition.source.type == sys.argv[2]
"""


def run_without_pyspark(script: str, definition: Path, source: str) -> str:
    command = [sys.executable, "-c", WITHOUT_PYSPARK + script, str(definition), source]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_pyspark_a_pipeline_is_loaded_explained_and_checked(tmp_path: Path) -> None:
    script = """
assert [table.table for table in pipeline.explain(records=500).tables][:1] == ["shop.audit"]
assert pipeline.status().epoch == 0
assert pipeline.dead_letters() == []
print(*(one for check in pipeline.check().checks if check.status == "fail" for one in check.lines()), sep="\\n")
"""
    message = "changefeed run needs packages that are not installed: pip install 'changefeed[spark]'"
    assert run_without_pyspark(script, copy_examples(tmp_path) / "shop" / "pipeline.yaml", "files") == (
        f"fail  pyspark     pyspark is not installed\n      → {message}\n"
    )


def test_without_pyspark_a_pipeline_from_kafka_is_loaded(tmp_path: Path) -> None:
    definition = tmp_path / "pipeline.yaml"
    definition.write_text(
        "source: {type: kafka, servers: 'localhost:1', topics: [shop], protocol: ticdc-open}\n"
        "sink: {type: delta, path: lake}\npipeline: {name: shop}\n"
    )
    assert run_without_pyspark("print(pipeline.name)", definition, "kafka") == "shop\n"


def test_without_pyspark_a_run_names_the_command_that_installs_it(tmp_path: Path) -> None:
    script = """
try:
    pipeline.run()
except cf.MissingExtraError as error:
    print(error)
"""
    message = "Spark needs packages that are not installed: pip install 'changefeed[spark]'\n"
    assert run_without_pyspark(script, copy_examples(tmp_path) / "shop" / "pipeline.yaml", "files") == message


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
