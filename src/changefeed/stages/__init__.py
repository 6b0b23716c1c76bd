"""Stages: DataFrame in, DataFrame out, one verb a file. The order of them is in `pipeline/flow.py` alone."""
