"""Which keys and values belong to a person."""

from __future__ import annotations

import json

import pytest

from headrace.erasure import BadErasure, Match, Subject


@pytest.mark.parametrize(
    ("wanted", "key", "is_own"),
    [
        ("ada", b"ada", True),
        ("ada", b'"ada"', True),
        ("ada", b"adam", False),
        ("ada", b"", False),
        ("7", b"7", True),
        ("7", b'"7"', True),
        ("7", b"77", False),
        ("7", b'{"id": 7}', False),
        ('{"id": 7}', b'{"id":7}', True),
        ('{"id": 7}', b'{"id":"7"}', False),
        ('{"id": 7}', b'{"id":7,"shard":1}', False),
        ('{"a": 1, "b": "x"}', b'{"b":"x","a":1}', True),
        ('{"id": 7}', b'{"schema": {"type": "struct"}, "payload": {"id": 7}}', True),
        ('{"id": 1}', b'{"id": true}', False),
        ('{"id": 7}', b"{broken", False),
        ("zürich", "zürich".encode(), True),
    ],
)
def test_key_is_found_as_text_and_as_json(wanted: str, key: bytes, is_own: bool) -> None:
    assert Subject(key=wanted).matcher().is_key(key) is is_own


def test_key_may_be_bytes() -> None:
    matcher = Subject(key="00ff", is_hex=True).matcher()
    assert matcher.is_key(b"\x00\xff")
    assert not matcher.is_key(b"00ff")


@pytest.mark.parametrize(
    ("match", "value", "is_own"),
    [
        ("user=7", {"user": 7}, True),
        ("user=7", {"user": "7"}, True),
        ("user=7", {"user": 77}, False),
        ("user.id=7", {"user": {"id": 7}}, True),
        ("user=7", {"before": None, "after": {"user": 7}}, True),
        ("user=7", {"before": {"user": 7}, "after": {"user": 8}}, True),
        ("user=7", {"schema": {}, "payload": {"after": {"user": 7}}}, True),
        ("active=true", {"active": True}, True),
        ("name=a=b", {"name": "a=b"}, True),
        ("user=null", {"user": None}, False),
        ("user=7", {"user": {"id": 7}}, False),
    ],
)
def test_field_of_a_value_names_the_person(match: str, value: object, is_own: bool) -> None:
    matcher = Subject(key="7", matches=(Match.parse(match),)).matcher()
    assert matcher.is_value(json.dumps(value).encode()) is is_own


def test_value_that_is_not_json_is_unknown() -> None:
    matcher = Subject(key="7", matches=(Match.parse("user=7"),)).matcher()
    assert matcher.is_value(b"\x00\x01") is None
    assert matcher.is_value(b"[" * 100_000) is None


@pytest.mark.parametrize("written", ["user", "=7", "a..b=7", ""])
def test_match_without_field_and_value_is_rejected(written: str) -> None:
    with pytest.raises(BadErasure, match="does not name a field"):
        Match.parse(written)


def test_empty_key_and_wrong_digits_are_rejected() -> None:
    with pytest.raises(BadErasure, match="the key is empty"):
        Subject(key="")
    with pytest.raises(BadErasure, match="hexadecimal"):
        Subject(key="xy", is_hex=True)


def test_place_finds_the_person_by_a_field_of_the_key() -> None:
    assert Subject(key="ada").column("id") == "ada"
    assert Subject(key='{"id": 7}').column("user_id") == "7"
    assert Subject(key='{"id": 7, "shard": 1}').column("id") == "7"
    with pytest.raises(BadErasure, match="no field user"):
        Subject(key='{"id": 7, "shard": 1}').column("user")
