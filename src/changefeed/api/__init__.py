"""The implementation of `import changefeed` and of the commands, one for both.

Files on one subject: `codecs` (bytes ⇄ changes), `logs` (files of records), `translation`, `detection`, `catalog` (the
protocols there are), `pipeline`. `changefeed/__init__.py` has their public names. Nothing here prints.
"""
