"""Common parts of TiCDC's protocols: dispatchers, routing, time zones, values as text, claim checks, commit_ts.

Only rules that two or more of its protocols share belong here; the bytes of one protocol stay in its folder.
"""
