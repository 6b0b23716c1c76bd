"""Types of options that several of TiCDC's protocols have, each with its description. Names and meanings are TiCDC's own."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

Profile = Annotated[
    Literal["classic", "newarch"],
    Meta(description="the producer whose bytes are written; the bytes of both are read"),
]
TimeZone = Annotated[str, Meta(description="time zone of the text of TIMESTAMP values: the TiCDC server's `tz`")]
HandleKeyDeletes = Annotated[bool, Meta(description="deletes carry only the handle key")]
MessageBytes = Annotated[int, Meta(description="maximum size of a Kafka message in bytes")]
OneRowBatch = Annotated[int, Meta(description="accepted, without effect: a message is one row")]
LargeMessages = Annotated[
    str,
    Meta(description="what to do with rows above max-message-bytes: none (an error), handle-key-only, claim-check"),
]
ClaimCheckStorage = Annotated[str | None, Meta(description="folder of the claim-check files, a path or any fsspec URL")]
ClaimCheckBytes = Annotated[
    int, Meta(description="maximum size of a claim-check file in bytes; larger files are refused")
]
InflatedBytes = Annotated[
    int, Meta(description="maximum size of a value in bytes after decompression; larger values are refused")
]
