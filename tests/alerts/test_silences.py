"""Which alerts and keys a silence matches, and when."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.alerts.errors import BadAlert
from headrace.alerts.silences import Silence, matches_key, parse_matchers, silenced_until


def silence(**fields: Any) -> Silence:
    return Silence(**{"id": "s", "start_ms": 10, "end_ms": 20, **fields})


def test_silence_is_active_from_its_start_to_before_its_end() -> None:
    found = [silenced_until([silence()], "errors", {}, now_ms) for now_ms in (9, 10, 19, 20)]
    assert found == [None, 20, 20, None]


def test_longest_silence_counts() -> None:
    assert (
        silenced_until([silence(), silence(end_ms=50), silence(start_ms=90, end_ms=99)], "errors", {}, 15)
        == 50
    )


@pytest.mark.parametrize(
    ("fields", "matches"),
    [
        ({"alert": "err*"}, True),
        ({"alert": "slow"}, False),
        ({"key": {"service": "check*", "up": "false"}}, True),
        ({"key": {"service": "search"}}, False),
        ({"key": {"city": "*"}}, False),
        ({"key": {"code": "7", "team": "null"}}, True),
    ],
)
def test_patterns_of_names_and_values(fields: dict[str, Any], matches: bool) -> None:
    key = {"service": "checkout", "up": False, "code": 7, "team": None}
    assert silence(**fields).matches("errors", key) is matches


def test_matchers_are_read_from_text() -> None:
    assert parse_matchers(["service=a=b", " city = Oslo"]) == {"service": "a=b", "city": "Oslo"}
    assert matches_key({}, {"any": 1})
    for text in ("service", "=x", ""):
        with pytest.raises(BadAlert, match="FIELD=PATTERN"):
            parse_matchers([text])


@given(st.text())
def test_any_text_is_a_matcher_or_an_error(text: str) -> None:
    with contextlib.suppress(BadAlert):
        ((name, pattern),) = parse_matchers([text]).items()
        assert parse_matchers([f"{name}={pattern}"]) == {name: pattern}
