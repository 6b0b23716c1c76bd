"""The store of files on S3: its conformance suite, puts that arrive late, and a storage without conditional writes."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from changefeed.errors import ConfigError, FencedError, SinkError
from changefeed.pipeline.state import State
from changefeed.pipeline.store import files
from changefeed.pipeline.store.base import Keep, StoreReader
from changefeed.pipeline.store.files import FileStore
from changefeed.pipeline.store.reading import FileReader
from changefeed.storage import Folder, objects
from changefeed.storage.folders import folder_at
from tests.pipeline.store.conformance import Clock, Conformance, Kind, check, claimed, go
from tests.pipeline.store.places import sealed_text
from tests.pipeline.store.values import plan, state
from tests.services.fault_proxy import (
    Fault,
    FaultProxy,
    Hold,
    lose_answer,
    refuse,
    refuse_after,
    reset,
    without_condition,
)

if TYPE_CHECKING:
    from tests.services.s3 import S3Server


class OnS3(Kind):
    """A folder of the bucket, with a path that another run may use at another URL: that of a proxy."""

    def __init__(self, s3: S3Server, url: str | None = None, name: str = "") -> None:
        self.s3, self.name = s3, name or str(uuid.uuid4())
        self.folder = self._opened(url)

    def behind(self, proxy: FaultProxy) -> OnS3:
        """The same ledger, as a run sees it that reaches it through a proxy."""
        return OnS3(self.s3, proxy.url, self.name)

    def _opened(self, url: str | None) -> Folder:
        folder = folder_at(f"s3a://lake/{self.name}/ledger", self.s3.storage(url))
        assert folder is not None
        return folder

    def store(self, pipeline: str = "shop", keep: Keep | None = None, now: Clock | None = None) -> FileStore:
        return FileStore(self.folder, pipeline, keep, **({"now": now} if now else {}))

    def reading(self, pipeline: str = "shop") -> StoreReader:
        return FileReader(self._opened(None), pipeline)

    def make_newer(self) -> str:
        for info in self.folder.files_below():
            if not info.name.startswith("."):
                data = self.folder.read(info.name)
                assert data is not None
                self.folder.put(info.name, sealed_text(json.loads(data)["body"], 99, "7.0.0").encode())
        return self.folder.path


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PAGE", 5)
    monkeypatch.setattr(objects, "_PAUSES", (0.01, 0.01, 0.01))


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FaultProxy]:
    with FaultProxy(s3.url) as proxy:
        yield proxy


@pytest.mark.nightly  # the server takes 10 ms for a request
class TestConformance(Conformance):
    @pytest.fixture
    def kind(self, s3: S3Server) -> Kind:
        return OnS3(s3)

    @pytest.fixture(autouse=True)
    def _server(self, s3: S3Server) -> None:
        self.s3 = s3

    def another(self, folders: pytest.TempPathFactory) -> Kind:
        return OnS3(self.s3)


# A run whose put is on its way for a long time, while another run takes over.


def _held(kind: OnS3, proxy: FaultProxy, act: Callable[[FileStore], None]) -> tuple[FileStore, Hold, Any]:
    """Starts a run that does two steps, and then an act whose next entry is held on its way to the storage."""
    older, errors = kind.behind(proxy).store(), list[BaseException]()
    older.claim()
    go(older, 2)
    hold = Hold()
    proxy.add(hold, "PUT", rf"log/{older._head[0].number + 1:020}\.json")

    def run() -> None:
        try:
            act(older)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert hold.arrived.wait(60)

    def end() -> list[BaseException]:
        hold.release()
        thread.join()
        return errors

    return older, hold, end


@pytest.mark.parametrize("newer_steps", [0, 1, 30])
@pytest.mark.parametrize("deed", ["begin", "finish", "claim"])
def test_a_put_that_arrives_late_does_not_replace_the_claim_of_a_newer_run(
    s3: S3Server, proxy: FaultProxy, deed: str, newer_steps: int
) -> None:
    """After 30 steps the newer run has packed and deleted the entry: the older one creates it again, where it is never read."""
    kind = OnS3(s3)
    acts: dict[str, Callable[[FileStore], None]] = {
        "begin": lambda store: store.begin(plan(3)),
        "finish": lambda store: store.finish(state(3)),
        "claim": lambda store: store.claim(),
    }
    older, _, end = _held(kind, proxy, acts[deed])
    newer = claimed(kind)
    assert (newer.epoch, newer.step, newer.unfinished) == (2, 2, None)
    go(newer, newer.step + newer_steps)
    [error] = end()
    assert isinstance(error, FencedError)
    assert older.is_fenced()
    assert not newer.is_fenced()
    go(newer, newer.step + 7)
    check(kind, newer.step)
    again = claimed(kind)
    assert (again.epoch, again.step) == (3, newer.step)
    check(kind, newer.step)


def test_a_first_claim_that_arrives_late(s3: S3Server, proxy: FaultProxy) -> None:
    kind, hold, errors = OnS3(s3), Hold(), list[BaseException]()
    slow_run = kind.behind(proxy).store()
    proxy.add(hold, "PUT", rf"log/{1:020}\.json")

    def claim() -> None:
        try:
            slow_run.claim()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=claim)
    thread.start()
    assert hold.arrived.wait(60)
    fast_run = claimed(kind)
    hold.release()
    thread.join()
    assert errors == []
    assert (slow_run.owner, slow_run.epoch, fast_run.epoch) == (fast_run.owner, 2, 1)
    assert fast_run.is_fenced()


# Answers that are lost.


@pytest.mark.parametrize("fault", [lose_answer, reset, refuse(503, "SlowDown"), refuse_after(500)])
def test_a_run_goes_on_though_every_third_put_fails(s3: S3Server, proxy: FaultProxy, fault: Fault) -> None:
    kind, puts = OnS3(s3), [0]

    def sometimes(request: Any) -> None:
        puts[0] += 1
        if puts[0] % 3:
            request.answer(request.forward())
        else:
            fault(request)

    proxy.add(sometimes, "PUT", times=None)
    store = kind.behind(proxy).store()
    store.claim()
    go(store, 12)
    check(kind, 12)


def test_a_storage_that_is_away_is_a_transient_error(s3: S3Server, proxy: FaultProxy) -> None:
    kind = OnS3(s3)
    store = kind.behind(proxy).store()
    store.claim()
    go(store, 2)
    proxy.add(refuse(503, "SlowDown", "Please reduce your request rate."), times=None)
    with pytest.raises(SinkError) as caught:
        store.finish(state(3))
    assert caught.value.transient
    check(kind, 2)
    assert claimed(kind).step == 2


def test_a_storage_without_conditional_writes_is_refused_at_the_claim(s3: S3Server, proxy: FaultProxy) -> None:
    kind = OnS3(s3)
    proxy.add(without_condition, "PUT", times=None)
    with pytest.raises(
        ConfigError, match="this storage does not support conditional writes: of two files with one name"
    ):
        kind.behind(proxy).store().claim()
    assert kind.reading().latest() is None
    assert claimed(kind).state == State()


# Requests.


def test_the_requests_of_a_step_and_of_a_reader(s3: S3Server, proxy: FaultProxy) -> None:
    kind = OnS3(s3)
    store = kind.behind(proxy).store()
    store.claim()
    go(store, 8)
    with proxy.counted() as step:
        store.begin(plan(1))
        store.finish(state(1))
    with proxy.counted() as latest:
        FileReader(kind.behind(proxy).folder, "shop").latest()
    assert step["PUT"] <= 3, "two entries, and the definitions if they changed"
    assert step["GET"] <= 5, "each file is read back, and the log listed"
    assert dict(latest) == {"GET": 3}, "a list, the newest entry, its definitions"
