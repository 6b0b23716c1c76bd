"""The mark of tests that need the kernel's reader of binary logs."""

from __future__ import annotations

import pytest

from changefeed.sources.mysql.kernel_decoder import is_available

needs_kernel = pytest.mark.skipif(not is_available(), reason="no kernel that reads binary logs is installed")
