"""Options, which are shipped to executors and typed by users."""

from __future__ import annotations

import pickle
import re
from typing import Any

import msgspec
import pytest

from changefeed.errors import ConfigError
from changefeed.protocols import PROTOCOLS, protocol
from changefeed.protocols.base import Protocol
from tests.protocols.conformance.cases import Case, all_protocols, cases, decode, encode, lines, stores

ALL = [pytest.param(p, id=p.name) for p in all_protocols()]


@pytest.mark.parametrize("chosen", ALL)
def test_options_survive_pickling(chosen: Protocol) -> None:
    options = chosen.read_options({})
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_a_decoder_made_from_pickled_options_reads_the_same(case: Case) -> None:
    options = pickle.loads(pickle.dumps(protocol(case.protocol).read_options(case.options)))
    assert lines(protocol(case.protocol).decoder(options, stores(options)).decode(case.records)) == list(case.events)


@pytest.mark.parametrize("chosen", ALL)
def test_decoded_changes_survive_pickling(chosen: Protocol) -> None:
    case = next(case for case in cases() if case.protocol == chosen.name and case.encodes)
    decoded = decode(case)
    assert encode(case, [pickle.loads(pickle.dumps(decoded))]) == encode(case, [decoded])


@pytest.mark.parametrize("chosen", ALL)
def test_an_unknown_option_shows_the_nearest_and_all(chosen: Protocol) -> None:
    known = sorted(f.encode_name for f in msgspec.structs.fields(chosen.options))
    with pytest.raises(ConfigError) as caught:
        chosen.read_options({known[0] + "x": "1"})
    assert str(caught.value) == (
        f'unknown option of {chosen.name} "{known[0]}x". Did you mean "{known[0]}"? Known: {", ".join(known)}'
    )


_TEXT = "expected a text: what YAML takes for something else needs quotes"


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("debezium-mysql", {"debezium-version": 3.0}, f"debezium-version: {_TEXT}"),
        ("debezium-mysql", {"ssl.key.password": 12345}, f"ssl.key.password: {_TEXT}"),
        ("ticdc-debezium", {"null-with-default": None}, f"null-with-default: {_TEXT}"),
        ("ticdc-open", {"legacy-v4": "no"}, "legacy-v4: expected true or false, got 'no'"),
        ("ticdc-open", {"dispatchers": "rules.toml"}, "dispatchers: expected a list"),
        ("ticdc-open", {"max-batch-size": "many"}, "max-batch-size: expected a whole number"),
        ("ticdc-avro", {"max.retries": -1}, "max.retries: expected a whole number >= 0, got -1"),
        ("ticdc-avro", {"timeout": "soon"}, "timeout: expected a number"),
    ],
)
def test_a_value_of_another_type_names_the_option_and_its_type(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        protocol(name).read_options(options)
    assert str(caught.value) == f"{name}: {message}"


@pytest.mark.parametrize("chosen", ALL)
def test_every_option_has_a_description(chosen: Protocol) -> None:
    described = msgspec.inspect.type_info(chosen.options)
    assert isinstance(described, msgspec.inspect.StructType)
    for f in described.fields:
        assert isinstance(f.type, msgspec.inspect.Metadata), f.encode_name
        assert (f.type.extra_json_schema or {})["description"], f.encode_name


@pytest.mark.parametrize("chosen", ALL)
def test_the_registered_name_is_the_protocols_own(chosen: Protocol) -> None:
    assert PROTOCOLS[chosen.name].rsplit(".", 1)[-1] == re.sub("-", "_", chosen.name)
