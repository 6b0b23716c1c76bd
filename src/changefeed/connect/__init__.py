"""Kafka Connect's converters: Connect schemas, and data of such a schema as JSON or Avro.

Here belongs what every connector of Kafka Connect has in common. Debezium's envelope stays in the protocol's folder.
"""
