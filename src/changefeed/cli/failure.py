"""Errors to exit codes and words.

0     done
1     our fault, or the outside's: try again, or tell us
2     the command line or the configuration cannot work as written
3     data that could not be decoded, read or said in the protocol asked for
130   Ctrl-C
141   nobody reads our output any more
143   asked to stop (SIGTERM)
"""

from __future__ import annotations

import os
import traceback

import click
from click.exceptions import NoArgsIsHelpError

from changefeed.cli.output import Output, OutputClosedError
from changefeed.errors import ChangefeedError, ConfigError, ProtocolError, SourceError, UnsupportedError

_CODES: tuple[tuple[tuple[type[BaseException], ...], int], ...] = (
    ((OutputClosedError,), 141),
    ((click.Abort, KeyboardInterrupt), 130),
    ((click.ClickException, ConfigError), 2),
    ((ProtocolError, UnsupportedError, SourceError), 3),
)
QUIET = (130, 141)


def exit_code(error: BaseException) -> int:
    """The exit code that this error stands for."""
    if getattr(error, "transient", False):
        return 1
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), 1)


def report(error: BaseException, output: Output) -> int:
    """Says what went wrong on stderr, and returns the exit code."""
    code = exit_code(error)
    output.discard()
    if code in QUIET:
        return code
    if output.traceback or os.environ.get("CHANGEFEED_DEBUG"):
        output.note("".join(traceback.format_exception(error)).rstrip())
    if isinstance(error, NoArgsIsHelpError):
        output.note(error.format_message())
    else:
        output.error(type(error).__name__, _message(error), code)
    return code


def _message(error: BaseException) -> str:
    if isinstance(error, click.UsageError):
        usage = "" if error.ctx is None else f" (see: {error.ctx.command_path} --help)"
        return f"{error.format_message()}{usage}"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, ChangefeedError):
        return str(error)
    return f"{type(error).__name__}: {_in_short(str(error))}. This is a defect of changefeed; --traceback shows where"


def _in_short(text: str) -> str:
    """What a foreign error says, without the stack that Java's carry in their text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        lines = [lines[1].removeprefix(": ")]
    return lines[0].rstrip(".") if lines else ""
