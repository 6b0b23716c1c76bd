"""The end of a process, as an error in one: a failpoint raises it, and no handler of the product may catch it."""

from __future__ import annotations


class Killed(BaseException):
    """Not an Exception, so that no handler on the way catches it."""
