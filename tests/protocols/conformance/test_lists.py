"""A protocol is a folder and a line in `PROTOCOLS`: no other file lists the protocols by their names."""

from __future__ import annotations

import ast
from pathlib import Path

from changefeed.protocols import PROTOCOLS

ROOT = Path(__file__).parents[3]
# The dict itself, the list of protocols whose values a function of Spark decodes, and the examples.
BY_NAME = {"bench/spark_peers.py", "protocols/__init__.py", "tools/make_example.py"}


def listing(path: Path) -> set[str]:
    """The protocols that a file names in strings of their own."""
    texts = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
    return {text for text in texts if text in PROTOCOLS}


def test_no_file_lists_the_protocols() -> None:
    sources, tools = ROOT / "src" / "changefeed", ROOT / "tools"
    names = {str(path.relative_to(sources)): listing(path) for path in sources.rglob("*.py")}
    names |= {f"tools/{path.name}": listing(path) for path in tools.glob("*.py")}
    assert {name for name, protocols in names.items() if len(protocols) > 1} == BY_NAME
