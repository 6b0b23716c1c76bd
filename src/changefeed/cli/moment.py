"""Moments on the command line; see `changefeed.api.moments`."""

from __future__ import annotations

import click

from changefeed.api.moments import iso, moment_of, time_of
from changefeed.errors import ConfigError

__all__ = ["iso", "moment", "time_of"]


def moment(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    """The commit_ts that an option's text stands for, or the GTID or GTID set that it is."""
    if value is None:
        return None
    try:
        return moment_of(value)
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, param) from error
