"""Folders on S3 when answers are lost, requests refused, connections ended, and conditional writes not supported."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from changefeed.errors import AccessError, ConfigError, SinkError
from changefeed.storage import objects
from changefeed.storage.base import Folder
from changefeed.storage.folders import folder_at
from tests.services.fault_proxy import (
    Fault,
    FaultProxy,
    Hold,
    lose_answer,
    refuse,
    refuse_after,
    reset,
    slow,
    truncate,
    without_condition,
)

if TYPE_CHECKING:
    from tests.services.s3 import S3Server

_SLOW_DOWN = (503, "SlowDown", "Please reduce your request rate.")


@pytest.fixture
def proxy(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    monkeypatch.setattr(objects, "_PAUSES", (0.01, 0.01, 0.01))
    with FaultProxy(s3.url) as proxy:
        yield proxy


@pytest.fixture
def folder(s3: S3Server, proxy: FaultProxy) -> Folder:
    """A folder behind the proxy."""
    section = s3.storage(proxy.url).model_copy(update={"timeout": "3 seconds"})
    folder = folder_at(f"s3a://lake/{uuid.uuid4()}", section)
    assert folder is not None
    return folder


# Creation.


@pytest.mark.parametrize(
    "fault", [lose_answer, reset, refuse(*_SLOW_DOWN), refuse(500), refuse_after(500), refuse_after(503)]
)
@pytest.mark.parametrize("times", [1, 3])
def test_a_file_is_created_though_answers_are_lost(folder: Folder, proxy: FaultProxy, fault: Fault, times: int) -> None:
    proxy.add(fault, "PUT", times=times)
    assert folder.create("log/1", b"first")
    assert folder.read("log/1") == b"first"
    assert not folder.create("log/1", b"second")


@pytest.mark.parametrize("fault", [lose_answer, reset, refuse(*_SLOW_DOWN), refuse_after(503)])
def test_a_name_that_another_writer_has_is_not_created_though_answers_are_lost(
    folder: Folder, proxy: FaultProxy, fault: Fault
) -> None:
    folder.create("log/1", b"of another writer")
    proxy.add(fault, "PUT")
    assert not folder.create("log/1", b"first")
    assert folder.read("log/1") == b"of another writer"


def test_a_put_that_arrives_after_it_was_repeated(folder: Folder, proxy: FaultProxy) -> None:
    """The first request is given up after a time-out; it arrives when the second one has created the file."""
    hold = Hold()
    proxy.add(hold, "PUT")
    assert folder.create("log/1", b"first")
    hold.release()
    assert folder.read("log/1") == b"first"
    assert not folder.create("log/1", b"second")


def test_a_put_that_arrives_late_does_not_replace_the_file_of_another_writer(folder: Folder, proxy: FaultProxy) -> None:
    hold, results = Hold(), list[bool]()
    proxy.add(hold, "PUT", "log/1")
    older = threading.Thread(target=lambda: results.append(folder.create("log/1", b"older")))
    older.start()
    assert hold.arrived.wait(30)
    assert folder.create("log/1", b"newer")
    hold.release()
    older.join()
    assert (results, folder.read("log/1")) == ([False], b"newer")


def test_a_conflict_with_a_put_that_is_not_finished_is_asked_again(folder: Folder, proxy: FaultProxy) -> None:
    proxy.add(refuse(409, "ConditionalRequestConflict", "A conflicting operation occurred."), "PUT", times=2)
    assert folder.create("log/1", b"first")


def test_a_storage_that_is_away(folder: Folder, proxy: FaultProxy) -> None:
    proxy.add(refuse(*_SLOW_DOWN), "PUT", times=None)
    with pytest.raises(SinkError) as caught:
        folder.create("log/1", b"first")
    assert caught.value.transient
    assert str(caught.value) == (
        f"{folder.path}/log/1: bucket 'lake' at {proxy.url} did not write: SlowDown: Please reduce your request rate. Run again"
    )
    assert proxy.count("PUT") == 4
    proxy.clear()
    proxy.add(reset, times=None)
    with pytest.raises(SinkError, match="did not write: HTTP error") as caught:
        folder.create("log/1", b"first")
    assert caught.value.transient


def test_a_lost_answer_that_cannot_be_looked_up_is_the_first_error(folder: Folder, proxy: FaultProxy) -> None:
    proxy.add(lose_answer, "PUT", times=None)
    proxy.add(refuse(403, "AccessDenied", "Access Denied"), "GET", times=None)
    with pytest.raises(SinkError, match="did not write") as caught:
        folder.create("log/1", b"first")
    assert caught.value.transient
    proxy.clear()
    assert folder.read("log/1") == b"first"


def test_a_storage_without_conditional_writes_is_refused(folder: Folder, proxy: FaultProxy) -> None:
    proxy.add(without_condition, "PUT", times=None)
    with pytest.raises(ConfigError) as caught:
        folder.check_create()
    assert str(caught.value) == (
        f"{folder.path}: this storage does not support conditional writes: of two files with one name that may only be created "
        "once, it has accepted both. Two runs could overwrite each other's commits. Use a storage that supports If-None-Match, "
        "as Amazon S3 does"
    )


def test_the_check_of_a_storage_costs_two_requests_and_then_one(folder: Folder, proxy: FaultProxy) -> None:
    with proxy.counted() as first:
        folder.check_create()
    with proxy.counted() as second:
        folder.check_create()
    assert (first, second) == ({"PUT": 2}, {"PUT": 1})


# Reads and lists.


@pytest.mark.parametrize("fault", [reset, truncate, refuse(*_SLOW_DOWN), refuse(500), slow(0.2)])
def test_reads_are_repeated(folder: Folder, proxy: FaultProxy, fault: Fault) -> None:
    data = bytes(range(256)) * 400
    folder.put("data", data)
    reads: list[tuple[Callable[[], object], object]] = [
        (lambda: folder.read("data"), data),
        (lambda: folder.read_range("data", 1000, 90_000), data[1000:91_000]),
        (lambda: folder.read_all(["data", "none"]), [data, None]),
        (lambda: folder.open("data", len(data)).read(), data),
    ]
    for read, expected in reads:
        proxy.add(fault, "GET")
        assert read() == expected


@pytest.mark.parametrize("fault", [reset, truncate, refuse(*_SLOW_DOWN), refuse(500)])
def test_lists_puts_and_deletions_are_repeated(folder: Folder, proxy: FaultProxy, fault: Fault) -> None:
    for name in ("a", "b", "c"):
        proxy.add(fault, "PUT")
        folder.put(name, b"data")
    proxy.add(fault, "GET")
    assert folder.names() == ["a", "b", "c"]
    proxy.add(fault, "GET")
    assert folder.names("", "a") == ["b", "c"]
    proxy.add(fault, "GET")
    assert folder.folders() == []
    proxy.add(fault, "GET")
    assert [info.name for info in folder.files_below()] == ["a", "b", "c"]
    proxy.add(fault, "POST")
    folder.delete(["a", "b"])
    proxy.add(fault, "DELETE")
    folder.delete(["c"])
    assert folder.names() == []


@pytest.mark.parametrize("fault", [truncate, refuse(*_SLOW_DOWN)])
def test_reads_that_go_on_failing_are_errors(
    folder: Folder, proxy: FaultProxy, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_RETRIES", 0)
    folder.put("data", bytes(100_000))
    proxy.add(fault, "GET", times=None)
    reads: list[Callable[[], object]] = [lambda: folder.read("data"), lambda: folder.read_range("data", 0, 99_999)]
    for read in reads:
        with pytest.raises(SinkError, match=r"/data: bucket 'lake' at .* did not read: ") as caught:
            read()
        assert caught.value.transient


@pytest.mark.heavy
def test_a_list_costs_a_request_for_each_thousand_names(folder: Folder, proxy: FaultProxy) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: folder.put(f"log/{n:020}.json", b""), range(1005)))
    with proxy.counted() as whole:
        assert len(folder.names("log")) == 1005
    with proxy.counted() as end:
        assert len(folder.names("log", f"{994:020}.json")) == 10
    assert (whole, end) == ({"GET": 2}, {"GET": 1})


def test_near_ranges_are_one_request(folder: Folder, proxy: FaultProxy) -> None:
    folder.put("data", bytes(1 << 20))
    with proxy.counted() as counts:
        folder.read_ranges("data", [(n * 1000, 1000) for n in range(100)])
    assert counts == {"GET": 1}


# Refusals.

_REFUSALS = [
    (
        403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.", AccessError,
        "refuses the credentials (InvalidAccessKeyId: The AWS Access Key Id you provided does not exist in our records). Correct "
        "storage.access-key-id and storage.secret-access-key, fs.s3a.access.key and fs.s3a.secret.key, AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, a profile, or the role of the machine",
    ),
    (403, "SignatureDoesNotMatch", "The request signature we calculated …", AccessError, "refuses the credentials (Signature"),
    (400, "ExpiredToken", "The provided token has expired.", AccessError, "refuses the credentials (ExpiredToken: The"),
    (403, "AccessDenied", "Access Denied", AccessError, "(AccessDenied: Access Denied). Correct them, or give their"),
    (403, "", "", AccessError, "(HTTP status 403)"),
    (404, "NoSuchBucket", "The specified bucket does not exist", ConfigError, "there is no bucket 'lake' at"),
    (
        400, "AuthorizationHeaderMalformed", "The authorization header is malformed; the region 'us-east-1' is wrong; expecting "
        "'eu-central-1'", ConfigError, "is in another region (AuthorizationHeaderMalformed: The authorization header is "
        "malformed; the region 'us-east-1' is wrong; expecting 'eu-central-1'). Set storage.region, fs.s3a.endpoint.region or",
    ),
    (301, "PermanentRedirect", "The bucket you are attempting to access …", ConfigError, "is in another region"),
    (403, "RequestTimeTooSkewed", "The difference …", ConfigError, "the clock of this machine is wrong. Correct it"),
    (400, "InvalidRequest", "Missing required header", SinkError, ": InvalidRequest: Missing required header"),
    (501, "NotImplemented", "A header you provided implies …", SinkError, "NotImplemented: A header you provided implies …"),
]  # fmt: skip


@pytest.mark.parametrize("status, code, message, kind, expected", _REFUSALS)
def test_refusals(
    folder: Folder, proxy: FaultProxy, status: int, code: str, message: str, kind: type[Exception], expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(objects, "_RETRIES", 0)
    proxy.add(refuse(status, code, message), times=None)
    calls: dict[str, list[Callable[[], object]]] = {
        "write": [lambda: folder.create("a", b""), lambda: folder.put("a", b"")],
        "read": [lambda: folder.read("a"), lambda: folder.read_range("a", 0, 1)],
        "list": [folder.names, lambda: folder.names("", "a"), folder.folders, lambda: list(folder.files_below())],
        "delete": [lambda: folder.delete(["a"]), lambda: folder.delete(["a", "b"])],
    }
    for deed, of in calls.items():
        for call in of:
            with pytest.raises(kind) as caught:
                call()
            assert type(caught.value) is kind
            text = str(caught.value)
            assert text.startswith(folder.path)
            assert expected in text
            assert not getattr(caught.value, "transient", False)
            if code == "AccessDenied":
                assert f"these credentials may not {deed} in bucket 'lake' at {proxy.url} (" in text


def test_a_bucket_that_does_not_exist(s3: S3Server) -> None:
    folder = folder_at("s3://nowhere/folder", s3.storage())
    assert folder is not None
    calls = (lambda: folder.create("a", b""), lambda: folder.read("a"), folder.names, lambda: folder.delete(["a"]))
    for call in calls:
        with pytest.raises(
            ConfigError, match=r"there is no bucket 'nowhere' at http.*\. Correct the path, or create it"
        ):
            call()


def test_a_server_that_nothing_listens_for(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_PAUSES", (0.01,))
    monkeypatch.setattr(objects, "_RETRIES", 0)
    folder = folder_at("s3://lake/folder", s3.storage("http://127.0.0.1:1"))
    assert folder is not None
    for call in (lambda: folder.create("a", b""), lambda: folder.read("a"), folder.names):
        with pytest.raises(SinkError, match=r"HTTP error: error sending request\. Run again") as caught:
            call()
        assert caught.value.transient
