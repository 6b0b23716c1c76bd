"""Wire formats: cursor, strict JSON, Avro, Protocol Buffers, compression, decimal text of floats.

A format is a rule about bytes only, such as Confluent's header or the way Go prints JSON. Any protocol may use it: nothing
in this package depends on tables, change events, MySQL or a producer.
"""
