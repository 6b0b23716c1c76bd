"""The schema registry over HTTP: requests, retries, and errors."""

from __future__ import annotations

import base64
import json
import os
import ssl
from pathlib import Path
from typing import Any

import pytest

from changefeed import schema_registry
from changefeed.errors import ConfigError, ProtocolError, SchemaRegistryError
from changefeed.protocols.base import RegistryOptions
from changefeed.protocols.ticdc_avro.options import Options
from changefeed.stores import stores_of
from tests.schema_registry.answers import Asked, serving
from tests.services.certificates import write_certificate
from tests.services.registry import SchemaRegistry

TEXT = '{"type":"record","name":"t","namespace":"default.shop","fields":[{"name":"id","type":"int"}]}'
OTHER = TEXT.replace('"int"}', '"int"},{"name":"new","type":"string"}')
QUICK: dict[str, Any] = {"retries_wait_ms": 1, "retries_max_wait_ms": 1, "timeout": 5.0}


def connect(url: str, **options: Any) -> tuple[schema_registry.Get, schema_registry.Register]:
    return schema_registry.connect(url, RegistryOptions(**{**QUICK, **options}))


@pytest.mark.heavy
def test_a_real_registry_keeps_what_is_registered(registry: SchemaRegistry) -> None:
    get, register = connect(registry.url)
    number = register("kept-value", TEXT)
    assert register("kept-value", TEXT) == number
    assert connect(registry.url)[0](number) == TEXT
    assert registry.call("GET", "/subjects/kept-value/versions/latest")["schema"] == TEXT
    with pytest.raises(LookupError) as caught:
        get(999_999)
    assert str(caught.value) == f"schema registry {registry.url} has no schema 999999"


def test_a_real_registry_refuses_an_incompatible_schema(registry: SchemaRegistry) -> None:
    _, register = connect(registry.url)
    register("strict-value", TEXT)
    registry.call("PUT", "/config/strict-value", {"compatibility": "BACKWARD"})
    with pytest.raises(SchemaRegistryError) as caught:
        register("strict-value", OTHER)
    assert str(caught.value).startswith(f"schema registry {registry.url} answered 409 for subject strict-value: ")
    assert not caught.value.transient


def test_options_lead_to_a_registry(registry: SchemaRegistry) -> None:
    stores = stores_of(Options(schema_registry=registry.url))
    assert stores.register_schema is not None
    assert stores.get_schema is not None
    assert stores.get_schema(stores.register_schema("options-value", TEXT)) == TEXT
    assert stores_of(Options()).get_schema is None


def test_requests_are_confluents() -> None:
    with serving(lambda asked: (200, {"id": 7, "schema": TEXT})) as server:
        get, register = connect(server.url + "/")
        assert (register("shop.a/b-key", TEXT), get(7), get(7)) == (7, TEXT, TEXT)
    assert [(a.method, a.path.partition("?")[0]) for a in server.asked] == [
        ("POST", "/subjects/shop.a%2Fb-key/versions"),
        ("GET", "/schemas/ids/7"),
    ]
    assert server.asked[0].body["schema"] == TEXT


@pytest.mark.parametrize(
    "user, options", [("u%40x:p%3Aw@", {}), ("", {"basic_auth_user_info": "u@x:p:w"})], ids=["url", "option"]
)
def test_user_and_password_are_sent(user: str, options: dict[str, Any]) -> None:
    with serving(lambda asked: (200, {"schema": TEXT})) as server:
        connect(server.url.replace("//", "//" + user), **options)[0](7)
    assert server.asked[0].headers["Authorization"] == "Basic " + base64.b64encode(b"u@x:p:w").decode()


def test_a_token_is_sent() -> None:
    with serving(lambda asked: (200, {"schema": TEXT})) as server:
        connect(server.url, bearer_auth_token="secret")[0](7)
    assert server.asked[0].headers["Authorization"] == "Bearer secret"


def test_a_transient_failure_is_retried() -> None:
    answers = iter([(503, {}), (500, {}), (200, {"schema": TEXT})])
    with serving(lambda asked: next(answers)) as server:
        assert connect(server.url)[0](7) == TEXT
    assert len(server.asked) == 3


def test_the_next_url_is_asked_when_one_fails() -> None:
    with serving(lambda asked: (503, {})) as broken, serving(lambda asked: (200, {"schema": TEXT})) as server:
        assert connect(f"http://127.0.0.1:1,{broken.url},{server.url}", max_retries=1)[0](7) == TEXT
    assert (len(broken.asked), len(server.asked)) == (2, 1)


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize(
    "status, body, error, transient",
    [
        (401, {"error_code": 401, "message": "who are you"}, "answered 401 for schema 7: who are you", False),
        (404, {"error_code": 404, "message": "no such path"}, "answered 404 for schema 7: no such path", False),
        (429, {"error_code": 429, "message": "slow down"}, "answered 429 for schema 7: slow down", True),
        (500, b"oops", "answered 500 for schema 7: Unknown Schema Registry Error: b'oops'", True),
        (
            404,
            b"<html>" * 99,
            f"answered 404 for schema 7: {'Unknown Schema Registry Error: ' + str(b'<html>' * 99):.200}",
            False,
        ),
        (500, {"error_code": 500}, "answered 500 for schema 7: no reason given", True),
        (302, b"", "answered 302 for schema 7: it redirects; name the URL that answers directly", False),
        (200, b"<html>", "has no answer for schema 7: the response is not from a schema registry", True),
        (200, b"", "has no answer for schema 7: the response is not from a schema registry", True),
        (200, [], "has no answer for schema 7: the response is not from a schema registry", True),
        (
            200,
            {"schema": {"type": "int"}},
            "has no answer for schema 7: the response is not from a schema registry",
            True,
        ),
        (200, b"[" * 200_000, "has no answer for schema 7: the response is not from a schema registry", True),
        (200, {}, "answered without a schema for schema 7", False),
        (200, {"schema": 5}, "answered without a schema for schema 7", False),
    ],
)
def test_a_failure_has_status_and_reason(status: int, body: Any, error: str, transient: bool) -> None:
    with serving(lambda asked: (status, body)) as server, pytest.raises(SchemaRegistryError) as caught:
        connect(server.url.replace("//", "//me:secret@"))[0](7)
    assert (str(caught.value), caught.value.transient) == (f"schema registry {server.url} {error}", transient)


def test_a_registry_that_is_away_is_transient() -> None:
    with pytest.raises(SchemaRegistryError) as caught:
        connect("http://me:secret@127.0.0.1:1", max_retries=1)[0](7)
    assert str(caught.value) == (
        "schema registry http://127.0.0.1:1 did not answer for schema 7: [Errno 111] Connection refused"
    )
    assert caught.value.transient


def test_an_unknown_id_is_requested_again_only_after_a_while() -> None:
    with serving(lambda asked: (404, {"error_code": 40403, "message": "Schema not found"})) as server:
        get, _ = connect(server.url)
        for _ in range(3):
            with pytest.raises(LookupError):
                get(7)
    assert len(server.asked) == 1


def test_tasks_of_a_process_ask_once_for_a_schema_and_each_for_one_that_was_refused() -> None:
    known = {"/schemas/ids/7"}

    def answer(asked: Asked) -> tuple[int, Any]:
        return (200, {"schema": TEXT}) if asked.path in known else (404, {"error_code": 40403, "message": "Not found"})

    with serving(answer) as server:
        for _ in range(3):
            get, _ = connect(server.url)
            assert get(7) == TEXT
            with pytest.raises(LookupError):
                get(8)
        known.add("/schemas/ids/8")
        assert connect(server.url)[0](8) == TEXT
        assert [asked.path[-1] for asked in server.asked] == ["7", "8", "8", "8", "8"]
        assert connect(server.url, cache_capacity=5)[0](7) == TEXT  # other options, another client
    assert len(server.asked) == 6


@pytest.mark.parametrize(
    "answer, error",
    [
        ({"schema": "message T {}", "schemaType": "PROTOBUF"}, "schema 7 is PROTOBUF, expected AVRO"),
        (
            {"schema": TEXT, "references": [{"name": "a", "subject": "b", "version": 1}]},
            "schema 7 references other schemas, which is not supported",
        ),
    ],
)
def test_an_unusable_schema_is_an_error_of_the_record(answer: Any, error: str) -> None:
    with serving(lambda asked: (200, answer)) as server, pytest.raises(ProtocolError) as caught:
        connect(server.url)[0](7)
    assert (str(caught.value), caught.value.reason) == (error, "bad-schema")


def test_the_id_0_is_not_a_schema() -> None:
    with serving(lambda asked: (200, {"id": 0})) as server, pytest.raises(SchemaRegistryError) as caught:
        connect(server.url)[1]("a-key", TEXT)
    assert str(caught.value) == f"schema registry {server.url} returned the id 0 for a-key"


@pytest.mark.parametrize(
    "url, options, error",
    [
        ("ftp://host", {}, "schema-registry ftp://…: expected http, https or a path"),
        ("", {}, "schema-registry '': expected a path or a URL, as http://registry:8081"),
        ("registry:8081", {}, "schema-registry 'registry:8081': expected a path or a URL, as http://registry:8081"),
        ("10.0.0.7:80/v7", {}, "schema-registry '10.0.0.7:80/v7': expected a path or a URL, as http://10.0.0.7:80/v7"),
        ("https://host", {"ssl_ca_location": "none.pem"}, "ssl.ca.location: 'none.pem' does not exist"),
        ("http://u:p@:80", {}, "schema-registry: ':80' is not a URL with a host"),
        ("http://host:port", {}, "schema-registry: 'http://host:port' is not a URL with a host"),
        (
            "http://a:b@host,http://c:d@host",
            {},
            "schema-registry: its URLs and basic.auth.user.info name several users, expected one",
        ),
        (
            "http://a:b@host",
            {"bearer_auth_token": "x"},
            "schema-registry: expected a user or bearer.auth.token, not both",
        ),
    ],
)
def test_an_url_that_cannot_work_is_refused(url: str, options: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        connect(url, **options)
    assert str(caught.value) == error


def test_tls_with_a_private_certificate(tmp_path: Path) -> None:
    context = _certificate(tmp_path)

    def answer(asked: Asked) -> tuple[int, Any]:
        return 200, {"schema": json.dumps(asked.path)}

    with serving(answer, context) as server:
        assert connect(server.url, ssl_ca_location=str(tmp_path / "cert.pem"))[0](7) == '"/schemas/ids/7"'
        with pytest.raises(SchemaRegistryError) as caught:
            connect(server.url, max_retries=0)[0](7)
    assert "certificate verify failed" in str(caught.value)


def test_a_certificate_that_is_replaced_is_used(tmp_path: Path) -> None:
    context, certificate = _certificate(tmp_path), tmp_path / "cert.pem"
    with serving(lambda asked: (200, {"schema": TEXT}), context) as server:
        for count in (1, 1, 2):
            if count == 2:
                os.utime(certificate, ns=(7, 7))
            assert connect(server.url, ssl_ca_location=str(certificate))[0](7) == TEXT
            assert len(server.asked) == count


def _certificate(folder: Path) -> ssl.SSLContext:
    certificate, key = write_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
