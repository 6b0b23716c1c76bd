"""Wire formats without their meaning: cursor, strict JSON, Avro, Protocol Buffers, compression, digits of floats.

A format is the bytes alone: Confluent's header is one, Go's way of printing JSON is one.

Here belongs what any protocol could be written in. Nothing here knows a table, a change, MySQL or a producer.
"""
