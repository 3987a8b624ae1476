"""What a verified request becomes: key, value and headers of an event, its identity, or a dead letter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.edges.event import Event
from headrace.webhooks.incoming.event_of import (
    KEY_BYTES_MAX,
    LETTER_BYTES_MAX,
    BadContent,
    dead_letter_of,
    event_of,
    identity_of,
    identity_without_id,
    is_ping,
    keys_of_record,
)
from headrace.webhooks.incoming.history import accepted_keys, accepted_source, keys_of_any_kind
from headrace.webhooks.incoming.request import WebhookRequest
from headrace.webhooks.incoming.source import HmacRule, Kind, Source
from tests.webhooks.incoming.sending import NOW_MS, changed, signed, source

ALL_KINDS: tuple[Kind, ...] = ("github", "stripe", "standard", "plain-hmac", "none")


def event(by: Source, request: WebhookRequest) -> Event:
    return event_of(by, request, identity_of(by, request))


def request(body: bytes = b"{}", **headers: bytes) -> WebhookRequest:
    return changed(WebhookRequest(headers=[], body=body), **headers)


def test_value_is_the_body_as_it_was_sent() -> None:
    body = b'{ "id":"evt_1",\n "big": 1.00, "x": "\\u00e9" }\n'
    assert event(source("stripe"), signed(source("stripe"), body=body)).value == body


def test_github_event_has_type_id_and_hook_in_its_headers() -> None:
    whole = changed(
        signed(source("github"), message_id="72d3162e"),
        x_github_event=b"push",
        x_github_hook_id=b"5",
        x_other=b"no",
    )
    assert dict(event(source("github"), whole).headers) == {
        "webhook-source": b"sample",
        "webhook-id": b"72d3162e",
        "webhook-event": b"push",
        "content-type": b"application/json",
        "x-github-event": b"push",
        "x-github-delivery": b"72d3162e",
        "x-github-hook-id": b"5",
    }


@pytest.mark.parametrize("kind", ["stripe", "standard"])
def test_type_of_stripe_and_standard_webhooks_is_in_the_body(kind: Kind) -> None:
    by = source(kind)
    body = b'{"id": "evt_1", "type": "invoice.paid"}'
    headers = dict(event(by, signed(by, message_id="evt_1", body=body)).headers)
    assert headers["webhook-event"] == b"invoice.paid"
    assert headers["webhook-id"] == b"evt_1"


def test_event_without_a_type_has_none() -> None:
    headers = dict(event(source(), signed(source(), body=b"not JSON")).headers)
    assert "webhook-event" not in headers


def test_headers_that_the_source_names_are_copied_in_lower_case() -> None:
    by = source(headers=("X-Shop", "webhook-source"))
    whole = changed(signed(by), x_shop=b"42", webhook_source=b"forged")
    headers = dict(event(by, whole).headers)
    assert headers["x-shop"] == b"42"
    assert headers["webhook-source"] == b"sample"


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b'{"a": {"b": "ada"}}', b"ada"),
        (b'{"a": {"b": 42}}', b"42"),
        (b'{"a": {"b": 4.5}}', b"4.5"),
        (b'{"a": {"b": true}}', b"true"),
        ('{"a": {"b": "größe"}}'.encode(), "größe".encode()),
    ],
)
def test_key_is_the_field_of_the_body(body: bytes, key: bytes) -> None:
    by = source("none", key_field="a.b")
    assert event(by, request(body)).key == key


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON"),
        (b"payload=%7B%7D", "not JSON"),
        (b'{"a": {"b": "\xff"}}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"a":' * 100_000, "not JSON"),
        (b"[]", "no text or number in the field a.b"),
        (b"null", "no text or number in the field a.b"),
        (b'{"a": "b"}', "no text or number in the field a.b"),
        (b'{"a": {"b": null}}', "no text or number in the field a.b"),
        (b'{"a": {"b": {}}}', "no text or number in the field a.b"),
        (b'{"a.b": "flat"}', "no text or number in the field a.b"),
        (b'{"a": {"b": ""}}', "is empty"),
        (b'{"a": {"b": "' + b"x" * 20_000 + b'"}}', "has more than 10,000 characters"),
        ('{"a": {"b": "' + "ß" * 6_000 + '"}}', "has more than 10,000 bytes"),
    ],
)
def test_request_without_its_key_is_bad_with_the_reason(body: bytes | str, reason: str) -> None:
    by = source("none", key_field="a.b")
    with pytest.raises(BadContent, match=reason):
        event(by, request(body if isinstance(body, bytes) else body.encode()))


def test_key_of_the_largest_size_is_taken() -> None:
    by = source("none", key_field="a")
    assert len(event(by, request(b'{"a": "%s"}' % (b"x" * KEY_BYTES_MAX))).key or b"") == KEY_BYTES_MAX


def test_key_may_be_in_a_header() -> None:
    by = source("none", key_header="X-Shop")
    assert event(by, request(x_shop=b"42")).key == b"42"
    with pytest.raises(BadContent, match="X-Shop is missing"):
        event(by, request())


@pytest.mark.parametrize("value", ["é".encode(), b"\xff", b"x" * 257])
def test_id_that_is_no_short_text_is_bad(value: bytes) -> None:
    by = source("github")
    with pytest.raises(BadContent, match="x-github-delivery"):
        identity_of(by, changed(signed(by), x_github_delivery=value))


def test_id_that_is_there_twice_is_bad() -> None:
    by = source("none", id_header="x-id")
    twice = WebhookRequest(headers=[(b"x-id", b"1"), (b"x-id", b"2")], body=b"")
    with pytest.raises(BadContent, match="several times"):
        identity_of(by, twice)


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_repeated_request_has_the_identity_of_the_first(kind: Kind) -> None:
    by = source(kind, **({"id_header": "x-id"} if kind in ("plain-hmac", "none") else {}))
    first, second = (signed(by, message_id="a", now_ms=now) for now in (NOW_MS, NOW_MS + 60_000))
    other = signed(by, message_id="b")
    assert identity_of(by, first) == identity_of(by, second)
    assert not set(identity_of(by, first).keys) & set(identity_of(by, other).keys)


def test_github_body_with_another_id_is_known_because_the_id_is_not_signed() -> None:
    by = source("github")
    first = signed(by, message_id="a", body=b'{"n": 1}')
    replayed = changed(first, x_github_delivery=b"other")
    assert set(identity_of(by, first).keys) & set(identity_of(by, replayed).keys)


def test_hmac_without_an_id_is_known_by_what_is_signed() -> None:
    by = source("plain-hmac")
    assert identity_of(by, signed(by)) == identity_of(by, signed(by))
    assert identity_of(by, signed(by)) != identity_of(by, signed(by, now_ms=NOW_MS + 1_000))
    untimed = source("plain-hmac", hmac=HmacRule())
    assert identity_of(untimed, signed(untimed)) == identity_of(untimed, signed(untimed, now_ms=5_000))


def test_request_of_kind_none_without_an_id_is_never_known() -> None:
    assert identity_of(source("none"), request()).keys == ()


@pytest.mark.parametrize("kind", ["github", "stripe", "standard", "plain-hmac"])
def test_record_of_a_request_has_its_identity(kind: Kind) -> None:
    by = source(kind)
    whole = signed(by)
    record = event(by, whole)
    assert accepted_source(record.headers) == "sample"
    assert accepted_keys(kind, record.headers, record.value) == identity_of(by, whole).keys
    assert set(keys_of_any_kind(record)) >= set(identity_of(by, whole).keys)


def test_only_a_github_ping_is_a_ping() -> None:
    ping = changed(signed(source("github")), x_github_event=b"ping")
    assert is_ping(source("github"), ping)
    assert not is_ping(source("github"), signed(source("github")))
    assert not is_ping(source("standard"), changed(signed(source()), x_github_event=b"ping"))


def test_dead_letter_has_the_reason_and_the_whole_body() -> None:
    by = source("github")
    whole = signed(by, message_id="a", body=b"bad")
    letter = dead_letter_of(by, whole, identity_of(by, whole), "the body is not JSON", retry=False, now_ms=5)
    assert letter.topic == "dlq.t"
    assert letter.value == b"bad"
    assert dict(letter.headers) == {
        "webhook-source": b"sample",
        "webhook-id": b"a",
        "__dlq.errors.topic": b"t",
        "__dlq.errors.timestamp": b"5",
        "__dlq.errors.group": b"webhook sample",
        "__dlq.errors.message": b"the body is not JSON",
    }
    assert accepted_keys("github", letter.headers, letter.value) == identity_of(by, whole).keys


def test_dead_letter_of_a_large_body_is_truncated_and_says_so() -> None:
    whole = request(b"x" * (LETTER_BYTES_MAX + 1))
    letter = dead_letter_of(source(), whole, identity_without_id(whole), "large", retry=True, now_ms=5)
    assert len(letter.value or b"") == LETTER_BYTES_MAX
    assert dict(letter.headers)["__dlq.errors.truncated.from.bytes"] == b"500001"
    assert accepted_source(letter.headers) == ""


def test_dead_letter_without_an_id_is_known_by_its_body() -> None:
    whole = request(b"bad")
    assert keys_of_record("standard", "", whole.body) == identity_without_id(whole).keys


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)


@given(JSON | st.binary(), st.sampled_from(["a", "a.b", "b.c"]))
def test_any_body_has_a_key_or_a_reason(body: Any, field: str) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    by, reason = source("none", key_field=field), ""
    try:
        found = event(by, request(raw))
    except BadContent as bad:
        reason = str(bad)
    assert reason or (found.key and found.value == raw)
