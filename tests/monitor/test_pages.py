"""Every page and its twin, over ledgers on disk."""

from __future__ import annotations

import base64
import json
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from changefeed.monitor.views import LETTERS, STEPS
from changefeed.pipeline.monitoring.cuts import offset_text
from changefeed.pipeline.monitoring.view import Failure
from changefeed.pipeline.state import Counts, Hold, LastStatement, LastWrite
from changefeed.pipeline.store.files import FileStore
from changefeed.sources.kafka.source_offset import SourceOffset
from changefeed.storage.local import LocalFolder
from tests.monitor import pipelines
from tests.monitor.pipelines import HOSTILE
from tests.monitor.site import Outline, Site

HOSTILE_TABLE = f"shop.{HOSTILE}"
PAGES = (
    "", "?before=101", "/tables", "/tables?search=a", f"/table?name={quote(HOSTILE_TABLE)}", "/letters",
    f"/row?name={quote(HOSTILE_TABLE)}", "/letters?replayed=yes&page=2", "/letter?position=orders:0:5", "/definition",
)  # fmt: skip


def _twin(path: str) -> str:
    before, mark, query = path.partition("?")
    return f"{before}.json{mark}{query}"


def test_the_overview_shows_every_pipeline_and_the_error_of_those_that_cannot_be_read(site: Site) -> None:
    shown = {one["name"]: one for one in site.json("/overview.json")["pipelines"]}
    assert {name: one["state"] for name, one in shown.items()} == {
        "orders": "running", "plain": "not known", "damaged": "unreadable", "broken": "unreadable"
    }  # fmt: skip
    assert "cannot be read" in shown["damaged"]["error"]
    assert "source.type is missing" in shown["broken"]["error"]
    orders = shown["orders"]
    assert (orders["step"], orders["pending"], orders["dead_letters"], orders["tables"]) == (250, 125, 150, 3)
    assert orders["cut"].endswith("(2026-01-01T00:04:10.000Z)")
    assert orders["lag"]["records"] == 7
    assert [(one["kind"], one["name"]) for one in orders["held_by"]] == [("partition", "orders:0"), ("table", "shop.a")]
    assert shown["plain"]["held_by"][1]["name"] == "shop.a"  # known without a definition, too
    page = site.html("/")
    for text in ("150", "source.type is missing", "shop.a", orders["cut"]):
        assert text in page


@pytest.mark.parametrize("path", PAGES)
def test_every_page_has_a_twin_and_is_whole(site: Site, path: str) -> None:
    own = site.of("orders")
    outline = Outline(site.html(own + path))
    assert outline.unclosed == []
    assert site.json(_twin(own + path))


@pytest.mark.parametrize("path", ["/", *PAGES])
def test_pages_can_be_used_by_keyboard_and_screen_reader(site: Site, path: str) -> None:
    outline = Outline(site.html(path if path == "/" else site.of("orders") + path))
    names = [name for name, _ in outline.elements]
    assert names.count("h1") == names.count("main") == names.count("header") == names.count("footer") == 1
    levels = [int(name[1]) for name in names if name in ("h1", "h2", "h3")]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert names.count("caption") == names.count("table")
    assert all("scope" in cell for cell in outline.all("th"))
    labels = {label["for"] for label in outline.all("label")}
    assert all(one.get("type") == "hidden" or one["id"] in labels for one in outline.all("input"))
    assert all(one.get("aria-label") or one.get("aria-labelledby") for one in outline.all("nav"))
    assert all(one.get("aria-label") and one["tabindex"] == "0" for one in outline.all("pre"))
    assert all(one.get("aria-labelledby") or one.get("aria-hidden") for one in outline.all("svg"))
    ids = [one["id"] for _, one in outline.elements if "id" in one]
    assert len(ids) == len(set(ids))
    assert outline.all("html")[0]["lang"] == "en"
    assert outline.all("a")[0]["href"] == "#main"


@pytest.mark.parametrize("path", ["/", *PAGES])
def test_texts_from_outside_are_escaped_and_nothing_is_inline(site: Site, path: str) -> None:
    outline = Outline(site.html(path if path == "/" else site.of("orders") + path))
    scripts = outline.all("script")
    assert scripts == [{"src": "/static/refresh.js", "defer": None}]
    for name, attributes in outline.elements:
        assert name != "style"
        assert not [key for key in attributes if key == "style" or key.startswith("on")]
        for key in ("href", "src", "action"):
            assert not (attributes.get(key) or "").startswith(("http:", "https:", "//", "javascript:"))


def test_a_table_named_like_a_script_is_shown_as_text(site: Site) -> None:
    own = site.of("orders")
    for path in (f"/table?name={quote(HOSTILE_TABLE)}", "/tables", "/letters", ""):
        page = site.html(own + path)
        assert HOSTILE not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_steps_have_their_own_counts_and_the_tables_that_they_have_written(site: Site) -> None:
    own = site.of("orders")
    newest = site.json(f"{own}.json")
    assert [one["step"] for one in newest["steps"]] == list(range(250, 250 - STEPS, -1))
    step = newest["steps"][5]
    assert (step["records"], step["rows"], step["applied"], step["schema_changes"]) == (17, 16, 15, 0)
    assert len(step["written"]) == step["tables_written"] == 1
    assert newest["steps"][10]["schema_changes"] == 1  # step 240
    assert newest["partitions"][0] == {
        "topic": "orders", "partition": 0, "next_offset": 2500, "place": None, "left": 3,
        "resolved": "463267653222400000 (2026-01-01T00:04:10.000Z)", "holds": True,
    }  # fmt: skip
    assert newest["phases"][1] == {"phase": "write", "seconds": 3.0, "share": 0.6667}


def test_all_steps_are_reached_by_the_links_to_older_ones(site: Site) -> None:
    own, before, steps = site.of("orders"), None, list[dict[str, Any]]()
    while True:
        shown = site.json(f"{own}.json" + (f"?before={before}" if before else ""))
        steps += shown["steps"]
        before = shown["older"]
        if before is None:
            break
    assert [one["step"] for one in steps] == list(range(250, 0, -1))
    assert [one["step"] for one in steps if one["written"] is None] == [1]  # nothing is before the first
    assert all(one["records"] == 17 for one in steps[:-1])


def test_only_steps_that_are_shown_are_read(site: Site, monkeypatch: pytest.MonkeyPatch, lake: Path) -> None:
    own = site.of("orders")
    site.html(own)
    names: list[str] = []
    read = LocalFolder.read

    def noted(folder: LocalFolder, name: str) -> bytes | None:
        names.append(name)
        return read(folder, name)

    monkeypatch.setattr(LocalFolder, "read", noted)
    site.html(own)
    assert [name for name in names if name.startswith(("log/", "history/"))] == [names[0]] * len(
        [name for name in names if name.startswith(("log/", "history/"))]
    ), "more than the newest entry was read again"
    names.clear()
    site.html(f"{own}?before=80")
    assert len({name for name in names if name.startswith("history/")}) == 1
    assert not [name for name in names if name.endswith(".jsonl")], "dead letters were read again"


def test_a_new_step_and_a_new_ledger_are_seen(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    store = pipelines.write(tmp_path / "p", "p", 5)
    with Site([str(tmp_path)]) as site:
        own = site.of("p")
        assert site.json(f"{own}.json")["step"] == 5
        for step in (6, 7):
            store.finish(pipelines.state(step, ("a", "b")))
        shown = site.json(f"{own}.json")
        assert [one["step"] for one in shown["steps"]] == [7, 6, 5, 4, 3, 2, 1]
        assert shown["steps"][0]["records"] == shown["steps"][1]["records"] == 17
        assert shown["steps"][1]["gone"] == [HOSTILE_TABLE]
        shutil.rmtree(tmp_path / "p/_changefeed")
        pipelines.write(tmp_path / "p", "p", 3)
        assert [one["step"] for one in site.json(f"{own}.json")["steps"]] == [3, 2, 1]


def test_a_table_has_its_columns_and_the_changes_of_its_definition(site: Site) -> None:
    shown = site.json(f"{site.of('plain')}/table.json?name=shop.b")
    assert [(one["name"], one["type"], one["nullable"], one["key"]) for one in shown["columns"]] == [
        ("c0", "bigint", "no", True), ("c1", "bigint", "yes", False), ("c2", "bigint", "yes", False)
    ]  # fmt: skip
    assert (shown["keys"], shown["held"]) == (["c0"], False)
    newest = shown["history"][0]
    assert newest["columns"] == 3
    held = site.json(f"{site.of('plain')}/table.json?name=shop.a")
    assert (held["held"], held["held_because"]) == (True, "in quarantine")


def test_a_step_of_a_binlog_has_the_lag_of_its_newest_commit(tmp_path: Path) -> None:
    """Its commit_ts are places in the binlog; the ledger has the commit times beside them, in packed steps, too."""
    store, commit = (
        FileStore(LocalFolder(f"{tmp_path}/p/_changefeed/ledger"), "p"),
        datetime.now(UTC) - timedelta(hours=1),
    )
    store.claim()
    for step in range(1, 151):
        time = int((commit + timedelta(seconds=step)).timestamp() * 1000)
        known = pipelines.state(step, ("a",), barrier=(1 << 40) + step, resolved={}, time=time)
        store.finish(known)
    assert len(list((tmp_path / "p/_changefeed/ledger/history").iterdir())) > 0
    with Site([str(tmp_path)]) as site:
        own = site.of("p")
        for path in ("", "?before=91", "?before=31"):
            steps = site.json(f"{own}.json{path}")["steps"]
            ages = [datetime.fromisoformat(one["at"]) - timedelta(seconds=one["lag_seconds"]) for one in steps]
            assert [round((age - commit).total_seconds()) for age in ages] == [one["step"] for one in steps]
        assert "binlog 000001:150" in site.html(own)
        assert "Lag, seconds" in site.html(own)


def test_steps_of_the_newest_run_show_the_time_of_their_parts(tmp_path: Path) -> None:
    pipelines.write(tmp_path / "p", "p", 5)
    pipelines.beat(tmp_path / "p", "p", step_phases={5: {"read": 1.25, "write": 2.0}})
    with Site([str(tmp_path)]) as site:
        own = site.of("p")
        phases = {one["step"]: one["phases"] for one in site.json(f"{own}.json")["steps"]}
        assert phases == {5: {"read": 1.25, "write": 2.0}, **dict.fromkeys((4, 3, 2, 1))}
        assert "<summary>3.25 s</summary>" in site.html(own)
    pipelines.beat(tmp_path / "p", "p", epoch=2, step_phases={5: {"read": 1.0}})
    with Site([str(tmp_path)]) as site:
        assert site.json(f"{own}.json")["steps"][0]["phases"] is None, "another run's step"


@pytest.mark.parametrize("standing", [1, 30, 130, 250], ids=["newest", "not packed", "packed", "all"])
def test_a_cut_that_stands_was_first_published_by_the_step_that_reached_it(tmp_path: Path, standing: int) -> None:
    """The newest steps are entries of the ledger's log, older ones are packed into pages."""
    store = FileStore(LocalFolder(f"{tmp_path}/_changefeed/ledger"), "p")
    store.claim()
    for step in range(1, 251):
        reached = pipelines.state(min(step, 251 - standing), ("a", "b"))
        store.finish(replace(reached, counts=pipelines.state(step, ("a",)).counts))
    assert len(list((tmp_path / "_changefeed/ledger/history").iterdir())) > 0
    with Site([str(tmp_path)]) as site:
        shown = site.json("/overview.json")["pipelines"][0]
        steps = site.json(f"/pipelines/{shown['id']}.json?before={252 - standing}")["steps"]
        assert shown["held_by"]
        assert (steps[0]["step"], steps[0]["at"]) == (251 - standing, shown["held_since"])


@pytest.mark.parametrize("what", ["rows", "a table"])
@pytest.mark.parametrize("waiting", [1, 30, 130], ids=["newest", "not packed", "packed"])
def test_a_cut_is_held_since_something_waits(tmp_path: Path, what: str, waiting: int) -> None:
    store = FileStore(LocalFolder(f"{tmp_path}/_changefeed/ledger"), "p")
    store.claim()
    quiet = pipelines.state(1, ("a", "b"))
    quiet = replace(quiet, counts=Counts(9, 9, 9))
    waits = replace(quiet, counts=Counts(10, 10, 9)) if what == "rows" else replace(quiet, held={"shop.a": Hold(None)})
    for step in range(1, 251):
        store.finish(quiet if step <= 250 - waiting else waits)
    with Site([str(tmp_path)]) as site:
        shown = site.json("/overview.json")["pipelines"][0]
        steps = site.json(f"/pipelines/{shown['id']}.json?before={252 - waiting}")["steps"]
        assert (steps[0]["step"], steps[0]["at"]) == (251 - waiting, shown["held_since"])


def test_the_holder_has_its_reason_and_the_way_out(tmp_path: Path) -> None:
    store = FileStore(LocalFolder(f"{tmp_path}/_changefeed/ledger"), "p")
    store.claim()
    topics: dict[str, Any] = {
        "positions": {"shop_a": {0: 3}, "shop_b": {0: 3}},
        "resolved": {"shop_a": {0: 5}, "shop_b": {0: 9}},
        "latest": {"shop_a": {0: 6}, "shop_b": {0: 9}},
        "statements": {"shop_a": {"shop.a": LastStatement(6, "dropped")}},
    }
    store.finish(pipelines.state(1, ("b",), **topics, barrier=5, source=SourceOffset({"shop_a": {"0": 3}}).text()))
    source = "{type: kafka, servers: 'h:1', topics: [shop_a, shop_b], protocol: ticdc-open}"
    (tmp_path / "pipeline.yaml").write_text(
        f"source: {source}\nsink: {{type: delta, path: .}}\npipeline: {{name: p}}\n"
    )
    with Site([str(tmp_path)]) as site:
        [holder] = site.json(f"{site.of('p')}.json")["held_by"]
        assert holder["reason"] == "no resolved event after 5; its table shop.a was dropped at 6"
        assert holder["way_out"] == "take shop_a out of source.topics, and set source.removed-topics to `continue`"
        for page in ("/", site.of("p")):
            assert f"{holder['reason']} (the way out: {holder['way_out']})" in site.html(page)


ID = 8_123_456_789_012_345_677  # of a snapshot of Iceberg; the nearest number of JavaScript is another one


@pytest.mark.parametrize(
    "definition, version",
    [("sink: {type: iceberg, path: .}", str(ID)), ("", str(ID)), ("sink: {type: delta, path: .}", ID)],
    ids=["iceberg", "not known", "delta"],
)
def test_numbers_that_javascript_would_round_are_texts(tmp_path: Path, definition: str, version: int | str) -> None:
    """Ids of snapshots, unless the versions count up; and places in a binlog."""
    store = FileStore(LocalFolder(f"{tmp_path}/_changefeed/ledger"), "p")
    store.claim()
    place = 9000 << 40 | 4
    for step in (1, 2):
        reached = pipelines.state(step, ("a",), positions={"binlog": {0: place}}, resolved={}, reached={"uuid": 7})
        table = reached.tables["shop.a"]
        tables = {"shop.a": replace(table, written=LastWrite(ID - 2 + step, 1, step, 1))}
        store.finish(replace(reached, tables=tables))
    if definition:
        source = "{type: mysql, host: h, user: u, tables: ['shop.*']}"
        (tmp_path / "pipeline.yaml").write_text(f"source: {source}\n{definition}\npipeline: {{name: p}}\n")
    with Site([str(tmp_path)]) as site:
        own = f"/pipelines/{site.json('/overview.json')['pipelines'][0]['id']}"
        shown = site.json(f"{own}.json")
        assert shown["steps"][0]["written"] == {"shop.a": version}
        assert [one["next_offset"] for one in shown["partitions"]] == [str(place)]
        assert site.json(f"{own}/tables.json")["tables"][0]["version"] == version
        assert site.json(f"{own}/table.json?name=shop.a")["version"] == version
        assert str(ID) in site.html(f"{own}/table?name=shop.a")
        assert f">{offset_text(place, binlog=True)}</td>" in site.html(own)
        assert f"{place:,}" not in site.html(own)


def test_dead_letters_are_listed_in_pages_and_shown_with_their_bytes(site: Site) -> None:
    own = site.of("orders")
    first, second = (site.json(f"{own}/letters.json?page={page}") for page in (1, 2))
    positions = [one["position"] for one in first["letters"] + second["letters"]]
    assert positions == [f"orders:0:{n}" for n in range(1, 151)]
    assert (first["count"], first["pages"], len(first["letters"])) == (150, 2, LETTERS)
    letter = site.json(f"{own}/letter.json?position=orders:0:5")
    assert base64.b64decode(letter["value"]) == b"\x00\xffbad"
    assert (letter["key"], letter["byte"], letter["table"]) == (None, 1, "shop.a")
    page = site.html(f"{own}/letter?position=orders:0:5")
    assert "00 <mark>ff</mark> 62 61 64" in page
    assert "|..bad|" in page


def test_a_replayed_dead_letter_waits_no_more(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    pipelines.write(tmp_path / "p", "p", 2)
    files = pipelines.dead(tmp_path / "p", [pipelines.letter(1), pipelines.letter(2)])
    with Site([str(tmp_path)]) as site:
        own = site.of("p")
        assert site.json(f"{own}/letters.json")["count"] == 2
        files.mark([("orders", 0, 1, None)])
        assert [one["position"] for one in site.json(f"{own}/letters.json")["letters"]] == ["orders:0:2"]
        assert site.json(f"{own}/letters.json?replayed=yes")["count"] == 2


def test_the_definition_is_shown_without_secrets(site: Site) -> None:
    own = site.of("orders")
    assert "very-secret-words" not in site.html(f"{own}/definition")
    shown = site.json(f"{own}/definition.json")
    assert shown["definition"]["storage"] == {"secret-access-key": "***"}
    assert shown["definition"]["pipeline"] == {"name": "orders"}


@pytest.mark.parametrize("password", ["very-secret-words", "very%2Fsecret words", "${WORDS}"])
def test_the_definition_is_shown_without_the_password_of_a_uri(
    password: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORDS", "very-secret-words")
    (tmp_path / "pipeline.yaml").write_text(
        f"source: {{type: mysql, uri: 'mysql://u:{password}@db/shop'}}\n"
        "sink: {type: delta, path: lake}\npipeline: {name: p}\n"
    )
    with Site([str(tmp_path)]) as site:
        own = site.of("p")
        shown = site.html(f"{own}/definition") + json.dumps(site.json(f"{own}/definition.json"))
    assert "@db/shop" in shown
    assert "words" not in shown


@pytest.mark.parametrize(
    "path, message",
    [
        ("/table?name=none", "The newest cut has no table none."),
        ("/row?name=none", "The newest cut has no table none."),
        ("/letter?position=a:0:1", "There is no dead letter at a:0:1."),
        ("/tables?page=9", "There is no page 9; there are 1."),
        ("/letters?page=x", "page is not a number from 1: 'x'."),
        ("?before=0", "before is not a number from 1: '0'."),
    ],
)
def test_an_address_of_nothing(site: Site, path: str, message: str) -> None:
    answer = site.client.get(_twin(site.of("orders") + path))
    assert (answer.status_code, answer.json()) == (404, {"error": message})
    page = site.client.get(site.of("orders") + path)
    assert page.status_code == 404
    assert Outline(page.text).unclosed == []


def test_a_damaged_ledger_answers_with_its_error(site: Site) -> None:
    own = site.of("damaged")
    assert "the ledger is damaged" in site.html(own)
    answer = site.client.get(f"{own}/tables.json")
    assert answer.status_code == 502
    assert "the ledger is damaged" in answer.json()["error"]


@pytest.mark.parametrize(
    "more, state",
    [
        ({"ended": True, "stage": "stopped"}, "stopped"),
        ({"ended": True, "stage": "stopped by an error"}, "stopped"),
        ({"every": 0.0, "at": datetime(2026, 1, 1, tzinfo=UTC)}, "killed"),
        ({}, "running"),
    ],
)
def test_states_of_a_run(tmp_path: Path, more: dict[str, Any], state: str) -> None:
    pipelines.write(tmp_path, "p", 2)
    pipelines.beat(tmp_path, "p", **more)
    with Site([str(tmp_path)]) as site:
        assert site.json("/overview.json")["pipelines"][0]["state"] == state


def test_a_run_that_failed_shows_its_error_and_no_secret(tmp_path: Path) -> None:
    failure = Failure(datetime.now(UTC), "no answer of s3://key:pass-word@bucket")
    pipelines.write(tmp_path, "p", 2)
    pipelines.beat(tmp_path, "p", ended=True, stage="stopped by an error", error=failure)
    with Site([str(tmp_path)]) as site:
        shown = site.json("/overview.json")["pipelines"][0]
        assert (shown["state"], shown["error"]) == ("failed", "no answer of s3://***@bucket")
        assert "pass-word" not in site.html("/")


@pytest.mark.parametrize("stage, alarms", [("waiting to try again", 1), ("planning", 0)])
def test_an_error_that_a_retry_has_mended_alarms_nobody(tmp_path: Path, stage: str, alarms: int) -> None:
    pipelines.write(tmp_path, "p", 2)
    pipelines.beat(tmp_path, "p", stage=stage, retries=1, error=Failure(datetime.now(UTC), "no broker"))
    with Site([str(tmp_path)]) as site:
        shown = site.json("/overview.json")["pipelines"][0]
        assert f"1 retry, the last at {shown['error_at'][:10]} " in shown["run"]
        for page in ("/", f"/pipelines/{shown['id']}"):
            assert site.html(page).count('class="error"') == alarms, page
            assert "no broker" in site.html(page)


def test_a_pipeline_that_has_not_run(tmp_path: Path) -> None:
    pipelines.define(tmp_path, "fresh")
    with Site([str(tmp_path / "pipeline.yaml")]) as site:
        assert site.json("/overview.json")["pipelines"][0]["state"] == "never run"
        for path in ("", "/tables", "/letters", "/definition"):
            assert Outline(site.html(site.of("fresh") + path)).unclosed == []


def test_a_single_table_row_or_dead_letter_is_singular(tmp_path: Path) -> None:
    pipelines.write(tmp_path, "p", 2, ["a"])
    pipelines.dead(tmp_path, [pipelines.letter(1)])
    pipelines.define(tmp_path, "p")
    with Site([str(tmp_path)]) as site:
        for path, text in (("", "1 table<"), ("", "1 row<"), ("/tables", "1 table of"), ("/letters", "1 record that")):
            assert text in site.html(site.of("p") + path)


def test_what_was_read_of_many_pipelines_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipelines.write(tmp_path / "p0", "p", 130, [f"t{n}" for n in range(200)])
    for n in range(1, 8):
        shutil.copytree(tmp_path / "p0", tmp_path / f"p{n}", copy_function=os.link)
    with Site([str(tmp_path)]) as site:
        assert len(site.json("/overview.json")["pipelines"]) == 8
        own = f"/pipelines/{next(iter(site.catalog.pipelines))}"
        assert len(site.json(f"{own}/tables.json")["tables"]) == 200
        assert site.json(f"{own}/tables.json?search=t19")["count"] == 11
        sizes: list[int] = []
        read = LocalFolder.read

        def noted(folder: LocalFolder, name: str) -> bytes | None:
            data = read(folder, name)
            sizes.append(len(data or b""))
            return data

        monkeypatch.setattr(LocalFolder, "read", noted)
        site.catalog._overview = None
        site.json("/overview.json")
        assert len(sizes) == 8, "one entry of each pipeline"
