"""Stages: functions from DataFrame to DataFrame, one in each file. Only `pipeline/flow.py` defines their order."""
