"""Java's regular expressions for topics, as Python reads them."""

from __future__ import annotations

import pytest

from changefeed.errors import ConfigError
from changefeed.pipeline.config.load import read
from changefeed.sources.kafka.pattern import topics_pattern


@pytest.mark.parametrize(
    "pattern, matched, not_matched",
    [
        ("shop_.*", "shop_1", "my_shop_1"),
        (r"\Qa.b\E\d", "a.b1", "axb1"),
        (r"(?<name>a|b)c\z", "ac", "acd"),
        ("a++b", "aab", "b"),
        (r"a\.b", "a.b", "axb"),
    ],
)
def test_patterns_that_python_reads_as_java_does(pattern: str, matched: str, not_matched: str) -> None:
    regex = topics_pattern(pattern)
    assert regex is not None
    assert regex.fullmatch(matched)
    assert not regex.fullmatch(not_matched)


@pytest.mark.parametrize("pattern", [r"\p{Lower}+", "[a-z&&[^x]]+", r"a\h", r"a\Z", "(?<=a{1,3})b", "a(?i)b", r"\cA"])
def test_patterns_for_java_alone(pattern: str) -> None:
    assert topics_pattern(pattern) is None


@pytest.mark.parametrize(
    "pattern, message",
    [
        (
            "sh(op",
            "'sh(op' is not a regular expression: missing ), unterminated subpattern at position 2",
        ),
        ("(?P<a>x)", "'(?P<a>x)': Java's regular expressions have no (?P<"),
    ],
)
def test_a_wrong_pattern_is_an_error_of_the_definition(pattern: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        topics_pattern(pattern)
    assert str(error.value) == message
    section = {"type": "kafka", "servers": "127.0.0.1:1", "topics-pattern": pattern, "protocol": "ticdc-open"}
    with pytest.raises(ConfigError, match=r"source\.topics-pattern"):
        read({"source": section, "sink": {"type": "delta", "path": "lake"}})
