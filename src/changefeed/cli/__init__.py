"""The command line: `changefeed COMMAND …`.

Rule 1. One file per command, imported when the command is called: `changefeed decode` imports neither Spark nor pandas.
Rule 2. Results go to stdout; errors, notes and progress go to stderr. Only `output.py` prints.
Rule 3. Exit codes say who has to act; only `failure.py` chooses them.
"""

from __future__ import annotations

import ast
import difflib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from changefeed import __version__
from changefeed.cli.failure import report
from changefeed.cli.output import Output

# name -> its module and the object in the module
COMMANDS: dict[str, str] = {
    "init": "changefeed.cli.init:init",
    "discover": "changefeed.cli.discover:discover",
    "check": "changefeed.cli.check:check",
    "explain": "changefeed.cli.explain:explain",
    "run": "changefeed.cli.run_:run",
    "status": "changefeed.cli.status:status",
    "monitor": "changefeed.cli.monitor:monitor",
    "dlq": "changefeed.cli.dlq:dlq",
    "repair": "changefeed.cli.repair:repair",
    "snapshot": "changefeed.cli.snapshot:snapshot",
    "expire": "changefeed.cli.expire:expire",
    "package": "changefeed.cli.package:package",
    "detect": "changefeed.cli.detect:detect",
    "decode": "changefeed.cli.decode:decode",
    "encode": "changefeed.cli.encode:encode",
    "transcode": "changefeed.cli.transcode:transcode",
    "list": "changefeed.cli.list_:list_",
    "bench": "changefeed.cli.bench:bench",
}
# title -> its commands, in the order of `changefeed --help`; commands that are not listed come last
SECTIONS: dict[str, tuple[str, ...]] = {
    "Pipelines": (
        "init",
        "discover",
        "check",
        "explain",
        "run",
        "status",
        "monitor",
        "dlq",
        "repair",
        "snapshot",
        "expire",
        "package",
    ),
    "Record logs": ("detect", "decode", "encode", "transcode"),
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            near = difflib.get_close_matches(cmd_name, COMMANDS, n=1)
            hint = f' Did you mean "{near[0]}"?' if near else ""
            ctx.fail(f'unknown command "{cmd_name}".{hint} Known: {", ".join(sorted(COMMANDS))}')
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        if cmd_name != "init":  # which needs no Arrow
            import_module("changefeed.startup").without_pandas()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        grouped = {name for names in SECTIONS.values() for name in names}
        rest = tuple(name for name in COMMANDS if name not in grouped)
        for title, names in [*SECTIONS.items(), ("More", rest)]:
            with formatter.section(title):
                formatter.write_dl([(name, short_help(name)) for name in names])


def short_help(name: str) -> str:
    """Returns the first sentence of a command's help, from its file: to import all commands takes a second."""
    module, _, function = COMMANDS[name].partition(":")
    source = Path(__file__).with_name(module.rpartition(".")[2] + ".py").read_text(encoding="utf-8")
    [command] = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == function]
    return click.Command(name, help=ast.get_docstring(command)).get_short_help_str(100)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="changefeed")
def changefeed() -> None:
    """Row changes of MySQL and TiDB: decoded, encoded, and applied to lakehouse tables."""


def run(args: Sequence[str]) -> int:
    """Runs one command and returns its exit code; errors are printed on stderr."""
    output = Output()
    try:
        with output.warnings():
            code: Any = changefeed.main(list(args), prog_name="changefeed", standalone_mode=False, obj=output)
        output.flush()
    except (Exception, KeyboardInterrupt) as error:
        return report(error, output)
    return code or 0


def main() -> None:
    """The `changefeed` script."""
    # NumPy's threads for matrices, of which there are none here, would wait busily.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(run(sys.argv[1:]))
