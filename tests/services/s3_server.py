"""Runs moto's S3 server; its arguments are those of `moto_server`.

moto looks for a file and then writes it, so that two puts with `If-None-Match: *` at one time may both succeed. S3 lets one of
them succeed: here a put waits for the one before it.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

from moto.s3.responses import S3Response
from moto.server import main

_LOCK = Lock()
_put_object = S3Response.put_object


def _put_alone(response: S3Response) -> tuple[int, dict[str, Any], str | bytes]:
    with _LOCK:
        return _put_object(response)


if __name__ == "__main__":
    S3Response.put_object = _put_alone  # type: ignore[assignment, method-assign]
    main()
