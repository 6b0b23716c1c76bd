"""Every package that the code imports is declared in `pyproject.toml`, for the code that imports it.

A module needs the packages that it and the modules it imports name at module level. Imports inside functions, for type checkers,
and in a `try` with `except ImportError` are made when, or if, a feature is used.

What several files of tests need is in a module of its own: none imports another.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Packages that a declared one requires by its own documented interface.
BROUGHT_BY = {"py4j": "pyspark", "pydantic-core": "pydantic"}
CORE_PACKAGES = "api cli codec columnar connect errors model mysql protocols record_log schema_registry ticdc wire"
KERNEL = "changefeed-kernel"  # optional everywhere: `codec` works without it


def distribution(text: str) -> str:
    """The normalized name at the start of a requirement."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", text)[0]).lower()


CORE = {distribution(text) for text in PROJECT["dependencies"]}
EXTRAS = {
    extra: {distribution(text) for text in texts}
    for extra, texts in PROJECT["optional-dependencies"].items()
    if extra != "all"
}
DISTRIBUTION = {name: distribution(names[0]) for name, names in packages_distributions().items()}
MODULES = {
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "src" / "changefeed").rglob("*.py")
}


def imports(body: list[ast.stmt], *, inside: bool) -> Iterator[str]:
    """The dotted names that statements import; with `inside`, also those in functions and guarded blocks."""
    for statement in body:
        match statement:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{name.name}" for name in names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=orelse):
                yield from imports(orelse, inside=inside)
            case ast.Try(handlers=handlers) if not inside and any(
                "Import" in ast.unparse(h.type or h) for h in handlers
            ):
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not inside:
                continue
            case _:
                for field in ("body", "orelse", "finalbody"):
                    yield from imports(getattr(statement, field, []), inside=inside)


@cache
def imported(module: str, *, inside: bool = False) -> frozenset[str]:
    """The names that a module imports."""
    return frozenset(imports(ast.parse(MODULES[module].read_text()).body, inside=inside))


def required(names: frozenset[str]) -> set[str]:
    """The distributions that have these names, as the project declares them."""
    roots = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"changefeed"}
    distributions = {DISTRIBUTION.get(root, root) for root in roots} - {KERNEL}
    return {BROUGHT_BY.get(name, name) for name in distributions}


def own_modules(name: str) -> Iterator[str]:
    """The modules of the package that importing a dotted name runs."""
    parts = name.split(".")
    yield from (".".join(parts[: n + 1]) for n in range(len(parts)) if ".".join(parts[: n + 1]) in MODULES)


@cache
def needed(module: str) -> frozenset[str]:
    """The distributions that must be installed to import a module."""
    seen, waiting, packages = set[str](), [*own_modules(module)], set[str]()
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            packages |= required(imported(current))
            waiting += [one for name in imported(current) for one in own_modules(name)]
    return frozenset(packages)


def test_every_imported_package_is_declared() -> None:
    declared = CORE.union(*EXTRAS.values())
    others = MODULES.keys() - {"changefeed.bench.peers"}  # it compares with the packages that happen to be there
    undeclared = {module: required(imported(module, inside=True)) - declared for module in others}
    assert {module: names for module, names in undeclared.items() if names} == {}


def test_the_core_and_the_command_line_need_no_extra() -> None:
    core = re.compile(rf"changefeed(\.({CORE_PACKAGES.replace(' ', '|')})\b|$)")
    modules = [module for module in MODULES if core.match(module)]
    assert len(modules) > 100
    undeclared = {module: needed(module) - CORE for module in modules}
    assert {module: set(names) for module, names in undeclared.items() if names} == {}


@pytest.mark.parametrize("module", ["changefeed.cli.run_", "changefeed.codec.topics"])
def test_imports_are_followed(module: str) -> None:
    assert {"click" if ".cli." in module else "numpy", "pyarrow"} <= needed(module)


def test_every_module_needs_one_extra_at_most() -> None:
    lacking = {
        module: needed(module) - CORE
        for module in MODULES
        if not any(needed(module) - CORE <= packages for packages in EXTRAS.values())
    }
    assert lacking == {}


def test_no_file_of_tests_is_imported() -> None:
    files = [path for folder in ("tests", "bench") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 500
    importing = {
        str(path.relative_to(ROOT)): names
        for path in files
        if (
            names := [
                n for n in imports(ast.parse(path.read_text()).body, inside=True) if re.match(r"tests\.(.*\.)?test_", n)
            ]
        )
    }
    assert importing == {}
