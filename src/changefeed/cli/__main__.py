"""`python -m changefeed.cli`."""

from changefeed.cli import main

main()
