"""The functions and classes behind `import changefeed`; the command line calls the same ones.

One file per subject: `codecs` (bytes ⇄ changes), `logs` (files of records), `translation`, `detection`, `catalog` (the
list of protocols), `pipeline`. `changefeed/__init__.py` has their public names. Nothing in this package prints.
"""
