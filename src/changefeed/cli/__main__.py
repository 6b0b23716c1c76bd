"""`python -m changefeed.cli`, which is `python -m changefeed`."""

from changefeed.cli import main

main()
