"""Options shared by several commands."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from changefeed.cli.output import Output
from changefeed.redaction import remember

_F = TypeVar("_F", bound=Callable[..., Any])


class Commands(click.Group):
    """A group of commands whose list shows the whole first sentence of each command's help."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes one entry per command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(150)) for name, one in sorted(self.commands.items())])


def common(command: _F) -> _F:
    """`--json` and `--traceback`, the options of every command."""
    as_json = click.option(
        "--json",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_set("json"),
        help="Print JSON, errors included.",
    )
    trace = click.option(
        "--traceback",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_set("traceback"),
        help="Print the traceback of an error.",
    )
    return as_json(trace(command))


def log_options(command: _F) -> _F:
    """`--log-format` and `--log-level`, of commands that go on for long."""
    form = click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        is_eager=True,
        expose_value=False,
        callback=_set_log_format,
        help="Lines on stderr: for people, or a JSON object each, with time, level and message, for a collector of logs.",
    )
    level = click.option(
        "--log-level",
        type=click.Choice(["error", "warning", "info"]),
        default="info",
        show_default=True,
        is_eager=True,
        expose_value=False,
        callback=_set_log_level,
        help="Lowest level of these lines: error: progress has stopped; warning: the run is impeded, nothing is lost; info: "
        "its life.",
    )
    return form(level(command))


def _set_log_format(ctx: click.Context, param: click.Parameter, value: str) -> None:
    ctx.ensure_object(Output).log_json = value == "json"


def _set_log_level(ctx: click.Context, param: click.Parameter, value: str) -> None:
    ctx.ensure_object(Output).log_level = logging.getLevelNamesMapping()[value.upper()]


def _set(name: str) -> Callable[[click.Context, click.Parameter, bool], None]:
    def callback(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value:
            setattr(ctx.ensure_object(Output), name, True)

    return callback


def example(*commands: str) -> str:
    """The examples at the end of a command's help."""
    return "\b\n" + "\n".join(["Example:" if len(commands) == 1 else "Examples:", *(f"  {line}" for line in commands)])


def pipeline(command: _F) -> _F:
    """The argument PIPELINE: the path of the definition."""
    return click.argument("path", metavar="PIPELINE.yaml", type=click.Path(path_type=Path))(command)


def logs(command: _F) -> _F:
    """The argument LOGS: record logs to read."""
    path = click.Path(exists=True, path_type=Path)
    return click.argument("logs", metavar="LOG…", nargs=-1, required=True, type=path)(command)


def protocol_options(flag: str, name: str, help: str) -> Callable[[_F], _F]:
    """`-o key=value`, repeatable, with the producer's option names."""
    return click.option(flag, name, metavar="KEY=VALUE", multiple=True, callback=_pairs, help=help)


def _pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key:
            name = re.sub(r"[^\w.-].*", "…", text, flags=re.DOTALL)  # the rest may be a secret
            raise click.BadParameter(f"{name!r} is not of the form key=value", ctx, param)
        if key in pairs:
            raise click.BadParameter(f"{key} is set twice", ctx, param)
        pairs[key] = value
        remember(key, value)
    return pairs


def keys(flag: str, name: str, help: str) -> Callable[[_F], _F]:
    """Decorator for an option of names, with commas between; the option may be repeated."""
    return click.option(flag, name, metavar="KEY[,KEY…]", multiple=True, callback=_names, help=help)


def _names(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip() for text in values for name in text.split(",") if name.strip())


def out(command: _F) -> _F:
    """`--out` and `--force`: the record log to write, and whether an existing one is replaced."""
    log = click.option(
        "--out",
        metavar="LOG",
        required=True,
        type=click.Path(path_type=Path),
        callback=_in_a_folder,
        help="Record log to write: *.jsonl, *.jsonl.gz, *.jsonl.zst or *.parquet.",
    )
    force = click.option(
        "--force",
        is_flag=True,
        is_eager=True,  # evaluated before --out, in any order on the command line
        expose_value=False,
        callback=_remember_force,
        help="Replace an existing log.",
    )
    return log(force(command))


def _remember_force(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta["changefeed.force"] = value


def _in_a_folder(ctx: click.Context, param: click.Parameter, path: Path) -> Path:
    if not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {path.parent}", ctx, param)
    if path.is_file() and not ctx.meta.get("changefeed.force"):
        raise click.UsageError(f"{path} exists; --force replaces it", ctx)
    return path
