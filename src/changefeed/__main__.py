"""`python -m changefeed`: the command line."""

from changefeed.cli import main

main()
