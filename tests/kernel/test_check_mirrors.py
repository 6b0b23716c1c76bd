"""`tools/check_mirrors.py`: each Rust file names the Python file that it mirrors."""

from __future__ import annotations

import pytest

from tools import check_mirrors


def test_kernel_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert (check_mirrors.main(), capsys.readouterr().err) == (0, "")


@pytest.mark.parametrize(
    "text, findings",
    [
        ("//! Mirrors wire/cursor.py: a position in bytes.\n", []),
        ("//! Kernel only: the Python module.\n", []),
        ("//! Mirrors wire/cursor.py, wire/gone.py: a position.\n", ["src/changefeed/wire/gone.py does not exist"]),
        ("//! A position in bytes.\n", ["begin with `//! Mirrors <file>.py: …` or `//! Kernel only: …`"]),
        ("", ["begin with `//! Mirrors <file>.py: …` or `//! Kernel only: …`"]),
    ],
)
def test_first_line_is_checked(text: str, findings: list[str]) -> None:
    assert list(check_mirrors.findings_in(text)) == findings
