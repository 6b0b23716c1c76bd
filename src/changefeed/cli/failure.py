"""Exit codes and messages of errors.

0     done
1     a defect of changefeed or of a module of one's own, or a failure outside of it (network, disk): try again, or report it
2     the command line or the configuration cannot work as written
3     data that could not be decoded, read, or encoded in the requested protocol
130   stopped by Ctrl-C (SIGINT)
141   stdout was closed by its reader
143   stopped by SIGTERM
"""

from __future__ import annotations

import logging
import os
import traceback

import click
from click.exceptions import NoArgsIsHelpError

from changefeed.cli.output import Output, OutputClosedError
from changefeed.errors import ChangefeedError, ConfigError, ProtocolError, SourceError, UnsupportedError
from changefeed.modules import own_line

_CODES: tuple[tuple[tuple[type[BaseException], ...], int], ...] = (
    ((OutputClosedError,), 141),
    ((click.Abort, KeyboardInterrupt), 130),
    ((click.ClickException, ConfigError), 2),
    ((ProtocolError, UnsupportedError, SourceError), 3),
)
QUIET = (130, 141)


def exit_code(error: BaseException) -> int:
    """The exit code of an error."""
    if getattr(error, "transient", False):
        return 1
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), 1)


def report(error: BaseException, output: Output) -> int:
    """Prints the error on stderr, and returns its exit code."""
    code = exit_code(error)
    output.discard()
    if code in QUIET:
        return code
    if output.traceback or os.environ.get("CHANGEFEED_DEBUG"):
        output.note("".join(traceback.format_exception(error)).rstrip(), logging.ERROR)
    if isinstance(error, NoArgsIsHelpError):
        output.note(error.format_message(), logging.ERROR)
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
    return f"{type(error).__name__}: {_in_short(str(error))}. {_origin(error)}; --traceback shows where"


def _origin(error: BaseException) -> str:
    """A sentence with the part that a foreign error comes from, without its period."""
    own = own_line(error)
    if own is None:
        return "This is a defect of changefeed"
    by = "" if own.is_last else "by changefeed, in a call of "
    return f"It was raised {by or 'in '}{own.module} ({own.file}:{own.line})"


def _in_short(text: str) -> str:
    """The text of a foreign error without the Java stack trace that may follow it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        lines = [lines[1].removeprefix(": ")]
    return lines[0].rstrip(".") if lines else ""
