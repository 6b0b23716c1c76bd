"""Records that the kernel reads by their shape."""

from __future__ import annotations

DEBEZIUM = (
    b'{"before":null,"after":%b,"source":{"version":"3.6.1.Final","connector":"mysql","name":"s","ts_ms":1767225675798,'
    b'"db":"shop","table":"t"},"op":"c"}'
)
