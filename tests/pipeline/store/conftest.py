"""Assertions of the conformance suite show their values, as those of test files do."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.pipeline.store.conformance")
