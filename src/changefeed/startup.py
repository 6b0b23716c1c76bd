"""Faster start: pyarrow and pyspark import pandas to find out whether it is there, two seconds of CPU for what is never used.

pyarrow does so at the first list that it is given, pyspark at the first argument of a Java call (with its test tools), and at
the first function that its workers are to run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pyarrow as pa


def without_pandas() -> None:
    """Keeps pyarrow from importing pandas by itself; when somebody else imports pandas, pyarrow uses it as ever."""
    if "pandas" in sys.modules or any(isinstance(finder, _UntilImported) for finder in sys.meta_path):
        return
    finder = _NotNow()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([])  # pyarrow tries, and does not try again by itself
    finally:
        sys.meta_path.remove(finder)
    sys.meta_path.insert(0, _UntilImported())


def spark_without_pandas() -> None:
    """Keeps pyspark from importing pandas by itself, where pandas is installed."""
    from pyspark.sql import types
    from pyspark.sql.pandas import functions

    if find_spec("pandas") is not None:
        functions.require_minimum_pandas_version = _nothing_required  # type: ignore[attr-defined]
    for name in ("NumpyScalarConverter", "NumpyArrayConverter"):
        converter = getattr(types, name)
        if not isinstance(converter.can_convert, _IfNumpy):
            converter.can_convert = _IfNumpy(converter.can_convert)


def _nothing_required() -> None:
    """The version is what changefeed itself requires."""


class _IfNumpy:
    """Asks a converter only about values of numpy."""

    def __init__(self, can_convert: Callable[[Any, Any], bool]) -> None:
        self._can_convert = can_convert

    def __get__(self, converter: Any, owner: type | None = None) -> Any:
        return self if converter is None else partial(self._asked, converter)

    def _asked(self, converter: Any, value: Any) -> bool:
        import numpy as np

        return isinstance(value, np.generic | np.ndarray) and self._can_convert(converter, value)


class _NotNow(MetaPathFinder):
    """Refuses pandas."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("not while pyarrow looks for it", name=fullname)
        return None


class _UntilImported(MetaPathFinder):
    """Waits for an import of pandas."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "pandas":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((spec for finder in others if (spec := finder.find_spec(fullname, path, target))), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenArrow(self, spec, spec.loader)
        return spec


class _ThenArrow(Loader):
    """Loads pandas, and lets pyarrow try again."""

    def __init__(self, finder: MetaPathFinder, spec: ModuleSpec, loader: Loader) -> None:
        self._finder, self._spec, self._loader = finder, spec, loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        sys.meta_path.remove(self._finder)
        self._spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        lib: Any = pa.lib
        _ = lib._pandas_api.version
