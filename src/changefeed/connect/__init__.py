"""Kafka Connect's converters: Connect schemas, and data with such a schema as JSON or Avro.

Only rules that all connectors of Kafka Connect share belong here; Debezium's envelope is in the protocol's folder.
"""
