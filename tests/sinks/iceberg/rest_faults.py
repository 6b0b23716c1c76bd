"""Faults of a REST catalog, for `FaultProxy`: its commits, and answers that say otherwise."""

from __future__ import annotations

import json

from tests.services.fault_proxy import Answer, Fault, Request, lose_answer, reset, slow, truncate


def error(status: int, kind: str, message: str = "no") -> Answer:
    """An error as a REST catalog answers it."""
    body = json.dumps({"error": {"message": message, "type": kind, "code": status}}).encode()
    return Answer(status, [("Content-Type", "application/json")], body)


def refused(status: int, kind: str) -> Fault:
    """The catalog refuses, and does nothing."""
    return lambda request: request.answer(error(status, kind))


def refused_after(status: int, kind: str = "") -> Fault:
    """The catalog commits, and the answer is that it has not; without a kind, it has no body."""

    def fault(request: Request) -> None:
        request.forward()
        request.answer(error(status, kind) if kind else Answer(status, [], b""))

    return fault


def sent_twice(request: Request) -> None:
    """A load balancer sends the commit again, because it has lost the first answer."""
    request.forward()
    request.answer(request.forward())


def a_page(request: Request) -> None:
    """The server of a login answers instead of the catalog, which has committed."""
    request.forward()
    request.answer(Answer(200, [("Content-Type", "text/html")], b"<html>Please sign in</html>"))


DONE: dict[str, Fault] = {
    "its answer is lost": lose_answer,
    "its answer is cut off": truncate,
    "its answer stops for a while": slow(0.5),
    "it is sent twice": sent_twice,
    "the answer is 409": refused_after(409, "CommitFailedException"),
    "the answer is 500": refused_after(500, "CommitStateUnknownException"),
    "the answer is 502 without JSON": refused_after(502),
    "the answer is 503": refused_after(503, "SlowDownException"),
    "the answer is 504": refused_after(504, "GatewayTimeout"),
    "the answer is a page of a login": a_page,
}

UNDONE: dict[str, Fault] = {
    "the connection ends": reset,
    "the answer is 500": refused(500, "CommitStateUnknownException"),
    "the answer is 503": refused(503, "ServiceUnavailableException"),
    "the answer is 429": refused(429, "TooManyRequestsException"),
    "the answer is 409": refused(409, "CommitFailedException"),
}
