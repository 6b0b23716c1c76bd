"""Access to the page: hosts, tokens, forms, headers, and the addresses that need a token."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from changefeed.cli import run
from changefeed.errors import ConfigError
from changefeed.monitor.security import Access
from changefeed.monitor.serving import Address
from tests.monitor import pipelines
from tests.monitor.site import Site
from tests.services.certificates import write_certificate
from tests.services.processes import stop

TOKEN = "a-token-of-some-length"  # prose: of an HTTP header


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("one")
    pipelines.write(root, "p", 2)
    pipelines.dead(root, [pipelines.letter(1)])
    pipelines.define(root, "p")
    return root


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8464", "localhost:1", "[::1]:8464", "page.example"])
def test_hosts_of_a_loopback_address(folder: Path, host: str) -> None:
    with Site([str(folder)], Access("127.0.0.1", names=("page.example",))) as site:
        assert site.client.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "[", "10.0.0.1"]
)
def test_other_hosts_are_refused(folder: Path, host: str) -> None:
    with Site([str(folder)]) as site:
        for path in ("/", "/overview.json", "/static/style.css", "/login"):
            answer = site.client.get(path, headers={"Host": host})
            assert answer.status_code == 421
            assert "p" not in re.findall(r"\w+", answer.text)


def test_hosts_of_an_address_that_other_machines_reach() -> None:
    access = Access("0.0.0.0", TOKEN, names=("page.example",))
    assert [access.serves(host) for host in ("10.1.2.3:8464", "page.example", "localhost", "evil.example")] == [
        True, True, True, False
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["/overview.json", "/nothing.json"])
def test_without_the_token_nothing_is_shown(folder: Path, path: str) -> None:
    with Site([str(folder)], Access("127.0.0.1", TOKEN)) as site:
        assert site.client.get(path).status_code == 401
        for value in (f"Bearer {TOKEN}x", "Bearer ", f"Basic {TOKEN}", "Bearer caf\xe9"):
            answer = site.client.get(path, headers={b"Authorization": value.encode("latin-1")})
            assert answer.status_code == 401
        page = site.client.get("/")
        assert (page.status_code, page.headers["location"]) == (303, "/login")
        assert site.client.get("/overview.json", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_login_form_sets_a_cookie_that_is_not_the_token(folder: Path) -> None:
    with Site([str(folder)], Access("127.0.0.1", TOKEN)) as site:
        wrong = site.client.post("/login", data={"token": TOKEN[:-1]})
        assert (wrong.status_code, "set-cookie" in wrong.headers) == (403, False)
        right = site.client.post("/login", data={"token": TOKEN})
        cookie = right.headers["set-cookie"]
        assert (right.status_code, right.headers["location"]) == (303, "/")
        assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))
        assert TOKEN not in cookie
        assert site.client.get("/").status_code == 200
        site.client.cookies.set("changefeed", "0" * 32 + "." + "0" * 64, domain="127.0.0.1")
        site.client.cookies.clear()
        assert site.client.get("/", headers={"Cookie": f"changefeed={'0' * 32}.{'0' * 64}"}).status_code == 303


def test_the_cookie_is_sent_over_tls_alone_if_there_is_tls(folder: Path) -> None:
    with Site([str(folder)], Access("127.0.0.1", TOKEN, secure=True)) as site:
        assert "Secure" in site.client.post("/login", data={"token": TOKEN}).headers["set-cookie"]


def test_a_page_that_only_shows_has_no_button_and_takes_no_form(folder: Path) -> None:
    with Site([str(folder)]) as site:
        own = site.of("p")
        assert "Replay</button>" not in site.html(f"{own}/letter?position=orders:0:1")
        assert site.client.post(f"{own}/replay", data={"position": "orders:0:1"}).status_code == 403
        assert site.client.post("/").status_code == 405


def test_a_form_of_a_foreign_site_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("changefeed.monitor.app.replay", lambda *_: pytest.fail("was replayed"))
    with Site([str(folder)], actions=True) as site:
        own = site.of("p")
        page = site.html(f"{own}/letter?position=orders:0:1")
        match = re.search(r'name="csrf" value="(\w+)"', page)
        assert match is not None
        form = {"position": "orders:0:1", "csrf": match[1]}
        refused = [
            site.client.post(f"{own}/replay", data={**form, "csrf": ""}),
            site.client.post(f"{own}/replay", data={**form, "csrf": "0" * 64}),
            site.client.post(f"{own}/replay", data=form, headers={"Origin": "https://evil.example"}),
        ]
        site.client.cookies.clear()
        refused.append(site.client.post(f"{own}/replay", data=form))
        refused.append(site.client.post(f"{own}/replay", data=form, headers={"Cookie": "changefeed=x.y"}))
        assert [answer.status_code for answer in refused] == [403] * 5


def test_the_button_runs_the_command_and_shows_its_output(folder: Path) -> None:
    """Without a log to read, the command ends with an error, which is shown."""
    with Site([str(folder)], actions=True) as site:
        own = site.of("p")
        match = re.search(r'name="csrf" value="(\w+)"', site.html(f"{own}/letter?position=orders:0:1"))
        assert match is not None
        form = {"position": "orders:9:9", "csrf": match[1]}
        page = site.client.post(f"{own}/replay", data=form, headers={"Origin": "http://127.0.0.1:8464"})
        assert page.status_code == 200
        assert "Not replayed" in page.text
        assert "orders:9:9" in page.text
        assert "error: " in page.text


def test_every_answer_has_the_headers(folder: Path) -> None:
    with Site([str(folder)]) as site:
        for path in ("/", "/overview.json", "/static/style.css", "/nothing", site.of("p")):
            headers = site.client.get(path).headers
            assert headers["content-security-policy"].startswith(
                "default-src 'none'; style-src 'self'; script-src 'self';"
            )
            assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
        for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/app.py"):
            assert site.client.get(path).status_code == 404


@pytest.mark.parametrize(
    "address, message",
    [
        (Address("0.0.0.0"), "--host 0.0.0.0 can be reached from other machines: set a token of at least 16 characters in "
         "CHANGEFEED_MONITOR_TOKEN, or leave --host out"),
        (Address("page.example", token="short"), "the token has 5 characters: it needs at least 16"),
        (Address(certificate="a.pem"), "--tls-cert and --tls-key are needed together"),
    ],
)  # fmt: skip
def test_addresses_that_are_refused(address: Address, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        address.check()
    assert str(raised.value) == message


def test_the_command_refuses_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["monitor", str(tmp_path / "none"), "--port", "0"]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path}/none is neither a definition nor a folder\n"


def test_the_command_refuses_to_be_open_to_everybody(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["monitor", str(tmp_path), "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "set a token" in capsys.readouterr().err


def test_a_missing_package_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["monitor", str(tmp_path), "--port", "0"]) == 2
    assert capsys.readouterr().err == (
        "error: `changefeed monitor` needs packages that are not installed: pip install 'changefeed[monitor]'\n"
    )


def test_the_command_serves_over_tls_to_who_has_the_token_until_sigterm(folder: Path, tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    command = [sys.executable, "-m", "changefeed", "monitor", str(folder), "--port", "0", "--json"]
    environment = {**os.environ, "CHANGEFEED_MONITOR_TOKEN": TOKEN}
    process = subprocess.Popen(
        [*command, "--tls-cert", str(certificate), "--tls-key", str(key)], stdout=subprocess.PIPE, env=environment
    )
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        assert url.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(certificate))
        request = urllib.request.Request(f"{url}overview.json", headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, context=trusted) as answer:
            assert json.load(answer)["pipelines"][0]["name"] == "p"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{url}overview.json", context=trusted)
    finally:
        stop(process)
        if process.stdout is not None:
            process.stdout.close()
    assert process.returncode in (0, -15, 143)
