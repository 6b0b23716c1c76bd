"""Requests to Azure and Google, without a server: conditions of puts, and answers in the form of their documentation."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from urllib.parse import unquote

import pytest

from changefeed.errors import AccessError, ConfigError, SinkError
from changefeed.storage import objects
from changefeed.storage.base import Folder
from changefeed.storage.folders import folder_at
from changefeed.storage.section import StorageSection
from tests.services.fault_proxy import Answer, FaultProxy, Request, refuse

_AZURE = "abfss://box@account.dfs.core.windows.net/lake"
_GOOGLE = "gs://box/lake"
_TAKEN = {"azure": (409, "BlobAlreadyExists"), "google": (412, "PreconditionFailed")}
_CONDITION = {"azure": ("if-none-match", "*"), "google": ("x-goog-if-generation-match", "0")}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """A server that has no files: every request needs an answer of the test."""
    monkeypatch.setattr(objects, "_PAUSES", (0.01, 0.01, 0.01))
    monkeypatch.setattr(objects, "_RETRIES", 0)
    with FaultProxy("http://127.0.0.1:1") as server:
        yield server


def _folder(service: str, server: FaultProxy) -> Folder:
    if service == "azure":
        key = base64.b64encode(b"key").decode()
        folder = folder_at(_AZURE, StorageSection.model_validate({"endpoint": server.url, "account-key": key}))
    else:
        key = json.dumps({"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""})
        folder = folder_at(_GOOGLE, StorageSection.model_validate({"endpoint": server.url, "service-account-key": key}))
    assert folder is not None
    return folder


def _created(request: Request) -> None:
    headers = [("ETag", '"1"'), ("Last-Modified", "Fri, 27 Nov 2026 12:00:00 GMT"), ("x-goog-generation", "1")]
    request.answer(Answer(201, headers, b""))


def _answered(body: bytes) -> Callable[[Request], None]:
    headers = [("ETag", '"1"'), ("Last-Modified", "Fri, 27 Nov 2026 12:00:00 GMT")]
    return lambda request: request.answer(Answer(200, headers, body))


@pytest.mark.parametrize("service", ["azure", "google"])
def test_a_file_is_created_on_condition(service: str, server: FaultProxy) -> None:
    folder, (name, value) = _folder(service, server), _CONDITION[service]
    server.add(_created, "PUT")
    assert folder.create("log/1", b"first")
    headers = {header.lower(): text for header, text in server.requests[-1].headers.items()}
    assert headers[name] == value
    assert unquote(server.requests[-1].path.partition("?")[0]).endswith("box/lake/log/1")
    server.add(refuse(*_TAKEN[service]), "PUT")
    assert not folder.create("log/1", b"second")
    server.add(_created, "PUT")
    folder.put("log/1", b"third")
    assert name not in {header.lower() for header in server.requests[-1].headers}


@pytest.mark.parametrize("service", ["azure", "google"])
def test_a_lost_answer_is_looked_up(service: str, server: FaultProxy) -> None:
    folder = _folder(service, server)
    for there, result in ((b"first", True), (b"of another writer", False)):
        server.add(refuse(503, "ServerBusy"), "PUT")
        server.add(_answered(there), "GET")
        assert folder.create("log/1", b"first") is result


@pytest.mark.parametrize("service", ["azure", "google"])
@pytest.mark.parametrize(
    "status, code, kind, expected",
    [
        (
            403,
            "AuthenticationFailed",
            AccessError,
            r"'box' at .* refuses the credentials \(AuthenticationFailed: text\)",
        ),
        (403, "AuthorizationPermissionMismatch", AccessError, r"these credentials may not (read|write|list|delete) in"),
        (404, "ContainerNotFound", ConfigError, r"there is no (bucket|container) 'box' at"),
        (404, "NoSuchBucket", ConfigError, r"there is no (bucket|container) 'box' at"),
        (503, "ServerBusy", SinkError, r"ServerBusy: text\. Run again"),
    ],
)
def test_refusals(
    service: str, server: FaultProxy, status: int, code: str, kind: type[Exception], expected: str
) -> None:
    folder = _folder(service, server)
    server.add(refuse(status, code, "text"), times=None)
    calls = (lambda: folder.create("a", b""), lambda: folder.read("a"), folder.names, lambda: folder.put("a", b""))
    for call in calls:
        with pytest.raises(kind, match=expected) as caught:
            call()
        assert getattr(caught.value, "transient", False) is (status == 503)


@pytest.mark.parametrize("service", ["azure", "google"])
def test_files_that_do_not_exist(service: str, server: FaultProxy) -> None:
    folder = _folder(service, server)
    server.add(refuse(404, "BlobNotFound" if service == "azure" else "NoSuchKey"), times=None)
    assert (folder.read("a"), folder.info("a")) == (None, None)
    with pytest.raises(SinkError, match="lake/a: the file does not exist"):
        folder.read_range("a", 0, 1)
    if service == "google":
        folder.delete(["a"])
        folder.delete(["a", "b"])
