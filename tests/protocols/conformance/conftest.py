"""Runs the tests of a vector or a history on one xdist worker, where it is decoded once for all of them (`cases.decode`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.protocols.conformance.cases import Case, History


@pytest.hookimpl(tryfirst=True)  # xdist reads the marker in its own hook of this name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.path.is_relative_to(Path(__file__).parent) or not isinstance(item, pytest.Function):
            continue
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        for value in parameters:
            if isinstance(value, Case | History):
                item.add_marker(pytest.mark.xdist_group(str(value)))
