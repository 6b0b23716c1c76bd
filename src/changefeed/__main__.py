"""Runs the command line: `python -m changefeed` is the command `changefeed`."""

from changefeed.cli import main

main()
