from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from changefeed.errors import ConfigError
from changefeed.spark_runtime import ivy, jars, java

CONTENT = b"a jar, as far as anyone here looks"
ONE = jars.Jar("io.example", "one", "1.0", hashlib.sha256(CONTENT).hexdigest())
TWO = jars.Jar("io.example", "two", "2.0", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two small jars in a set "demo", in place of the real table."""
    monkeypatch.setattr(jars, "SETS", {"demo": (ONE, TWO)})


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replaces Ivy: "downloads" the files that are put into it; counts its calls."""
    content = {ONE.file: CONTENT, TWO.file: CONTENT}
    asked = []

    def run(work: Path) -> None:
        asked.append(work)
        (work / "jars").mkdir()
        for name, data in content.items():
            (work / "jars" / name).write_bytes(data)

    monkeypatch.setattr(ivy, "_run_ivy", run)
    content_and_asked = (content, asked)
    return content_and_asked


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_real_sets_are_present_and_match_the_lock() -> None:
    files = jars.paths(*jars.SETS)
    assert [file.name for file in files] == [jar.file for members in jars.SETS.values() for jar in members]
    for name, members in jars.SETS.items():
        jars.verify(members, jars.paths(name)[0].parent)


def test_every_locked_jar_has_a_checksum() -> None:
    for members in jars.SETS.values():
        for jar in members:
            assert len(bytes.fromhex(jar.sha256)) == 32, jar.file


def test_a_second_call_downloads_nothing(sets: Any, repository: Any, tmp_path: Path) -> None:
    first = jars.paths("demo", cache=tmp_path)
    assert jars.paths("demo", cache=tmp_path) == first
    assert [path.name for path in first] == ["one-1.0.jar", "two-2.0.jar"]
    assert len(repository[1]) == 1


def test_another_version_is_another_folder(
    sets: Any,
    repository: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = jars.paths("demo", cache=tmp_path)[0].parent
    repository[0]["two-2.1.jar"] = CONTENT
    monkeypatch.setitem(jars.SETS, "demo", (ONE, TWO._replace(version="2.1")))
    after = jars.paths("demo", cache=tmp_path)[0].parent
    assert before != after
    assert before.is_dir()


def test_an_unknown_set_names_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        jars.paths("detla")
    assert str(caught.value) == 'unknown jar set "detla". Did you mean "delta"? Known: avro, delta, kafka'


def test_a_jar_the_repository_left_out_is_named_and_nothing_is_kept(sets: Any, repository: Any, tmp_path: Path) -> None:
    del repository[0][TWO.file]
    with pytest.raises(ConfigError, match=r"^two-2\.0\.jar is missing from "):
        jars.paths("demo", cache=tmp_path)
    assert entries(tmp_path / "jars") == []


def test_a_jar_with_other_content_is_refused_and_nothing_is_kept(sets: Any, repository: Any, tmp_path: Path) -> None:
    repository[0][TWO.file] = b"something else"
    actual = hashlib.sha256(b"something else").hexdigest()
    with pytest.raises(ConfigError) as caught:
        jars.paths("demo", cache=tmp_path)
    assert str(caught.value) == (f"two-2.0.jar is not the file that was locked: sha256 {actual}, expected {TWO.sha256}")
    assert entries(tmp_path / "jars") == []


def test_a_jar_deleted_later_is_named(sets: Any, repository: Any, tmp_path: Path) -> None:
    one, _ = jars.paths("demo", cache=tmp_path)
    one.unlink()
    with pytest.raises(ConfigError) as caught:
        jars.paths("demo", cache=tmp_path)
    assert str(caught.value) == (
        f"one-1.0.jar is missing from {one.parent}: delete that folder, and it is fetched again"
    )


def test_two_that_resolve_at_once_end_with_one_complete_folder(
    sets: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    both_are_resolving = threading.Barrier(2, timeout=20)

    def run(work: Path) -> None:
        (work / "jars").mkdir()
        for jar in (ONE, TWO):
            (work / "jars" / jar.file).write_bytes(CONTENT)
        both_are_resolving.wait()

    monkeypatch.setattr(ivy, "_run_ivy", run)
    results: list[object] = []

    def resolve() -> None:
        try:
            results.append(jars.paths("demo", cache=tmp_path))
        except Exception as error:
            results.append(error)

    threads = [threading.Thread(target=resolve) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] == results[1]
    assert isinstance(results[0], list), results
    assert len(entries(tmp_path / "jars")) == 1


def test_a_folder_that_cannot_be_written_is_not_taken_for_a_lost_race(
    sets: Any,
    repository: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(PermissionError):
        jars.paths("demo", cache=tmp_path)
    assert entries(tmp_path / "jars") == []


IVY_LOG = """\
:: loading settings :: url = jar:file:/x/ivy.jar!/org/apache/ivy/core/settings/ivysettings.xml
\t\tmodule not found: io.delta#delta-storage;9.9.9
\t\t::::::::::::::::::::::::::::::::::::::::::::::
\t\t::          UNRESOLVED DEPENDENCIES         ::
\t\t:: io.delta#delta-storage;9.9.9: not found
\t\t:: io.delta#delta-spark_4.1_2.13;9.9.9: not found
"""


def test_jars_that_ivy_did_not_find_are_named() -> None:
    assert ivy._explain(IVY_LOG) == (
        "jars that could not be fetched: io.delta:delta-spark_4.1_2.13:9.9.9, io.delta:delta-storage:9.9.9. "
        "They come from Maven Central once and are kept afterwards: is the network there?"
    )


def test_without_a_name_in_it_the_log_ends_the_message() -> None:
    assert ivy._explain("a\nb\n c\nd\ne\nf\n") == "jars: Ivy failed: b / c / d / e / f"


@pytest.mark.xdist_group("processes")
def test_ivy_itself_names_a_jar_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = jars.Jar("io.delta", "delta-storage", "0.0.0-never", "00" * 32)
    monkeypatch.setattr(jars, "SETS", {"demo": (absent,)})
    with pytest.raises(ConfigError, match=r"^jars that could not be fetched: io\.delta:delta-storage:0\.0\.0-never\."):
        jars.paths("demo", cache=tmp_path)


@pytest.mark.parametrize(
    "environ, system, folder",
    [
        ({"CHANGEFEED_HOME": "/data/cf", "XDG_CACHE_HOME": "/x"}, "Linux", "/data/cf"),
        ({"XDG_CACHE_HOME": "/x"}, "Linux", "/x/changefeed"),
        ({}, "Linux", "~/.cache/changefeed"),
        ({}, "Darwin", "~/Library/Caches/changefeed"),
        ({"CHANGEFEED_HOME": "/data/cf"}, "Darwin", "/data/cf"),
    ],
)
def test_the_cache_is_where_the_system_keeps_caches(environ: Any, system: Any, folder: Any) -> None:
    assert ivy.cache_folder(environ, system) == Path(os.path.expanduser(folder))


def test_run_as_a_program_it_prints_the_folders(
    sets: Any,
    repository: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CHANGEFEED_HOME", str(tmp_path))
    assert jars.main() == 0
    assert capsys.readouterr().out == f"{jars.paths('demo')[0].parent}\n"


def test_run_as_a_program_it_fails_with_the_message_alone(
    sets: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def none() -> java.Java:
        raise ConfigError("no Java")

    monkeypatch.setenv("CHANGEFEED_HOME", str(tmp_path))
    monkeypatch.setattr(java, "find", none)
    assert jars.main() == 1
    assert capsys.readouterr().err == "no Java\n"
