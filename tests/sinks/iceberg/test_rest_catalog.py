"""The REST catalog answers late, twice, wrongly or not at all: every write is made once, or the message names what is wrong."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from changefeed.errors import AccessError, ConfigError, FencedError, SinkError
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.iceberg.catalog import TableCatalog
from changefeed.sinks.iceberg.sink import IcebergTables
from changefeed.sinks.writes import Create, Load, Upsert
from changefeed.storage.local import LocalFolder
from tests.services.fault_proxy import Answer, FaultProxy, Hold, Request
from tests.services.processes import free_ports
from tests.services.rest_catalog import RestCatalog
from tests.sinks.contract import Row, sorted_rows
from tests.sinks.iceberg.rest_faults import DONE, UNDONE, error, refused
from tests.sinks.iceberg.tables import PATH, Tables

ONE: Row = {"id": 1, "note": "one"}
TWO: Row = {"id": 2, "note": "two"}
NEW: Row = {"id": 2, "note": "of the newer run"}
QUICK = {"rest.client.socket-timeout-ms": "300"}
COMMIT = r"/tables/orders$"


class Behind(Tables):
    """Tables whose catalog is behind a proxy."""

    def __init__(self, root: Path, direct: str, proxy: FaultProxy, epoch: int = 1, step: int = 0) -> None:
        super().__init__(root, step, epoch)
        self.direct, self.proxy, self.prefix = direct, proxy, f"t{uuid.uuid4().hex}_"

    def sink(
        self, metadata: tuple[str, ...] = (), url: str | None = None, properties: Mapping[str, str] | None = None
    ) -> IcebergTables:
        """A sink of the tables; `url`: that of the catalog, by default the proxy's."""
        known = {"type": "rest", "uri": url or self.proxy.url, **(properties or {})}
        folder = LocalFolder(str(self.root))
        catalog = TableCatalog("test", known, self.prefix + "{database}", folder, f"file://{self.root}")
        return IcebergTables(catalog, metadata, None, "changefeed:test:1", Limits())

    def credential(self) -> dict[str, str]:
        """Properties with the name and the secret of a client."""
        return {"credential": "someone:geheim", "oauth2-server-uri": f"{self.proxy.url}/v1/oauth/tokens"}

    def rows(self, path: str = PATH) -> list[Row]:
        catalog = load_catalog("test", type="rest", uri=self.direct)
        try:
            return sorted_rows(catalog.load_table(self.prefix + path.replace("/", ".")).scan().to_arrow().to_pylist())
        finally:
            catalog.close()

    def commits(self) -> int | None:
        """The number of commits of the table."""
        there = self.sink(url=self.direct).snapshot(PATH)
        assert there is not None
        return self.sink(url=self.direct).distance(PATH, -1, there.revision)


@pytest.fixture
def tables(rest_catalog: RestCatalog, tmp_path: Path) -> Iterator[Behind]:
    (tmp_path / "lake").mkdir()
    with FaultProxy(rest_catalog.url) as proxy:
        yield Behind(tmp_path / "lake", rest_catalog.url, proxy)


@pytest.mark.parametrize("kind", [Create, Load, Upsert])
@pytest.mark.parametrize("fault", DONE)
def test_a_commit_that_was_made_counts_once_although(fault: str, kind: Any, tables: Behind) -> None:
    if kind is Upsert:
        tables.write(tables.sink(), Load, ONE)
    before = 1 if kind is Upsert else 0
    tables.proxy.add(DONE[fault], "POST", COMMIT)
    tables.write(tables.sink(), kind, *([] if kind is Create else [TWO]))
    assert tables.rows() == {Create: [], Load: [TWO], Upsert: [ONE, TWO]}[kind]
    assert tables.commits() == before + 1


@pytest.mark.parametrize("fault", UNDONE)
def test_a_commit_that_was_not_made_is_tried_once_more_and_then_left_to_the_run(fault: str, tables: Behind) -> None:
    tables.write(tables.sink(), Load, ONE)
    tables.proxy.add(UNDONE[fault], "POST", COMMIT)
    tables.write(tables.sink(), Upsert, TWO)
    assert (tables.rows(), tables.commits()) == ([ONE, TWO], 2)
    tables.proxy.add(UNDONE[fault], "POST", COMMIT, times=None)
    with pytest.raises(SinkError) as caught:
        tables.write(tables.sink(), Upsert, NEW)
    assert caught.value.transient
    assert (tables.rows(), tables.commits()) == ([ONE, TWO], 2)


def test_the_commit_of_a_run_that_was_overtaken_arrives_late_and_is_refused(tables: Behind) -> None:
    tables.write(tables.sink(), Load, ONE)
    hold = Hold()
    tables.proxy.add(hold, "POST", COMMIT)
    errors = list[BaseException]()

    def older() -> None:
        try:
            tables.write(tables.sink(), Upsert, TWO)
        except BaseException as caught:
            errors.append(caught)

    late = Thread(target=older)
    late.start()
    assert hold.arrived.wait(60)
    newer = Behind(tables.root, tables.direct, tables.proxy, epoch=2, step=50)
    newer.prefix = tables.prefix
    newer.write(newer.sink(), Upsert, NEW)
    hold.release()
    late.join(60)
    assert [type(caught) for caught in errors] == [FencedError]
    assert (tables.rows(), tables.commits()) == ([ONE, NEW], 2)


def test_a_catalog_that_never_answers_is_left_after_its_time(tables: Behind) -> None:
    tables.write(tables.sink(), Load, ONE)
    hold = Hold()
    tables.proxy.add(hold, "GET", COMMIT)
    with pytest.raises(SinkError, match=r"catalog test at http\S+ does not answer: .*[Rr]ead timed out") as caught:
        tables.write(tables.sink(properties=QUICK), Upsert, TWO)
    hold.release()
    assert caught.value.transient
    tables.proxy.add(hold := Hold(), "GET", "/config")
    with pytest.raises(SinkError, match="does not answer"):
        tables.sink(properties=QUICK).snapshot(PATH)
    hold.release()


def test_a_catalog_that_is_down_is_named_with_the_fix(tables: Behind) -> None:
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(SinkError) as caught:
        tables.sink(url=url).snapshot(PATH)
    assert caught.value.transient
    assert str(caught.value) == (
        f"catalog test at {url} does not answer: [Errno 111] Connection refused. "
        "Is it running, and is uri in sink.catalog-properties right?"
    )


@pytest.mark.parametrize(
    "status, kind, wanted",
    [
        (401, "NotAuthorizedException", AccessError), (403, "ForbiddenException", AccessError),
        (404, "NotFoundException", SinkError), (400, "BadRequestException", SinkError),
    ],
)  # fmt: skip
def test_a_catalog_that_refuses_the_user_or_the_request_is_not_asked_again(
    status: int, kind: str, wanted: type[Exception], tables: Behind
) -> None:
    tables.proxy.add(refused(status, kind), "GET", "/config", times=None)
    with pytest.raises(wanted, match=r"sink\.catalog-properties$") as caught:
        tables.sink().snapshot(PATH)
    assert not getattr(caught.value, "transient", False)
    assert "\n" not in str(caught.value)


def test_a_wrong_client_secret_is_named_and_not_shown(tables: Behind) -> None:
    answer = Answer(401, [], json.dumps({"error": "invalid_client", "error_description": "unknown"}).encode())
    tables.proxy.add(lambda request: request.answer(answer), "POST", "/oauth/tokens", times=None)
    with pytest.raises(AccessError) as caught:
        tables.sink(properties=tables.credential()).snapshot(PATH)
    assert str(caught.value) == ("catalog test refuses this user: invalid_client: unknown. See sink.catalog-properties")


def test_tokens_are_renewed_when_they_expire(tables: Behind) -> None:
    """The catalog refuses a token that was good before: PyIceberg asks for another one, and repeats the request."""
    sink = tables.sink(properties=tables.credential())
    tables.write(sink, Load, ONE)
    asked = tables.proxy.count("POST", "/oauth/tokens")
    tables.proxy.add(refused(419, "AuthenticationTimeoutException"), "POST", COMMIT)
    tables.write(sink, Upsert, TWO)
    assert tables.proxy.count("POST", "/oauth/tokens") == asked + 1
    assert (tables.rows(), tables.commits()) == ([ONE, TWO], 2)


@pytest.mark.parametrize("limit", ["soon", "0", "-1"])
def test_a_limit_that_is_not_a_number_of_milliseconds_is_named(limit: str, tables: Behind) -> None:
    wrong = {"rest.client.socket-timeout-ms": limit}
    with pytest.raises(ConfigError, match=f"socket-timeout-ms is '{limit}', not a number of milliseconds"):
        tables.sink(properties=wrong).snapshot(PATH)


def test_a_namespace_that_somebody_makes_at_the_same_time_is_used(tables: Behind) -> None:
    def overtaken(request: Request) -> None:
        request.forward()
        request.answer(error(409, "AlreadyExistsException"))

    tables.proxy.add(overtaken, "POST", r"/namespaces$")
    tables.write(tables.sink(), Load, ONE)
    assert tables.rows() == [ONE]


def test_a_server_does_not_choose_how_files_are_read(tables: Behind) -> None:
    """Its configuration may name a class of PyIceberg's and a place: this sink has its own."""

    def configured(request: Request) -> None:
        answer = request.forward()
        config = json.loads(answer.body)
        config["overrides"] = {**config.get("overrides", {}), "py-io-impl": "nowhere.Class", "s3.endpoint": "http://x"}
        request.answer(Answer(200, [("Content-Type", "application/json")], json.dumps(config).encode()))

    tables.proxy.add(configured, "GET", "/config", times=None)
    tables.write(tables.sink(), Load, ONE)
    tables.write(tables.sink(), Upsert, TWO)
    assert tables.rows() == [ONE, TWO]
