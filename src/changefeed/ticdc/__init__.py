"""TiCDC, as its four protocols have it in common: dispatchers, routing, time zones, values as text, claim checks, commit ts.

Here belongs what TiCDC does the same way in two or more of its protocols. The bytes of one protocol stay in its folder.
"""
