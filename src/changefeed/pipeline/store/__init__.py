"""The ledger's store: the contract (`base.py`), and its implementations.

`files.py` keeps it in small files below the sink's path, `reading.py` reads these without Spark, `memory.py` is for tests.
Whatever implements `StateStore` must pass `tests/pipeline/store/conformance.py`.
"""
