"""Moments on the command line; see `changefeed.api.moments`."""

from __future__ import annotations

import click

from changefeed.api.moments import iso, moment_of, time_of
from changefeed.errors import ConfigError

__all__ = ["iso", "moment", "time_of"]


def moment(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The text of an option that names a moment."""
    if value is not None:
        try:
            moment_of(value)
        except ConfigError as error:
            raise click.BadParameter(str(error), ctx, param) from error
    return value
