"""What all kinds of signatures share: times, comparisons, and attacks on any of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.webhooks.incoming.request import WebhookRequest
from headrace.webhooks.incoming.signatures import verify
from headrace.webhooks.incoming.signatures.verdict import (
    SIGNATURES_MAX,
    Rejected,
    Why,
    check_match,
    check_time,
    seconds,
)
from headrace.webhooks.incoming.source import Kind, Source
from headrace.webhooks.secrets import Secret
from tests.webhooks.incoming.sending import NOW_MS, SECRET, SIGNED_KINDS, changed, header, signed, source

SIGNATURES = {
    "github": "x-hub-signature-256",
    "stripe": "stripe-signature",
    "standard": "webhook-signature",
    "plain-hmac": "x-signature",
}
OTHER = "whsec_b3RoZXIgc2VjcmV0IG9mIHNvbWVib2R5"

kinds = pytest.mark.parametrize("kind", SIGNED_KINDS)


def why(by: Source, request: WebhookRequest, now_ms: int = NOW_MS) -> Why:
    with pytest.raises(Rejected) as caught:
        verify(by, request, now_ms)
    return caught.value.why


@kinds
def test_signed_request_is_accepted(kind: Kind) -> None:
    verify(source(kind), signed(source(kind)), NOW_MS)


@kinds
def test_signature_of_another_body_is_rejected(kind: Kind) -> None:
    request = signed(source(kind), body=b'{"id": "a", "amount": 1}')
    assert why(source(kind), changed(request, body=b'{"id": "a", "amount": 2}')) is Why.MISMATCH
    assert why(source(kind), changed(request, body=request.body + b" ")) is Why.MISMATCH
    assert why(source(kind), changed(request, body=b"")) is Why.MISMATCH


@kinds
def test_signature_of_another_secret_is_rejected(kind: Kind) -> None:
    assert why(source(kind, secrets=(Secret(text=OTHER),)), signed(source(kind))) is Why.MISMATCH


@kinds
def test_request_without_signature_or_with_an_empty_one_is_rejected(kind: Kind) -> None:
    name = SIGNATURES[kind].replace("-", "_")
    assert why(source(kind), changed(signed(source(kind)), **{name: None})) is Why.MISSING
    assert why(source(kind), changed(signed(source(kind)), **{name: b""})) is Why.MISSING


@kinds
def test_truncated_signature_is_rejected(kind: Kind) -> None:
    request = signed(source(kind))
    value = header(request, SIGNATURES[kind])
    for length in range(1, len(value)):
        shorter = changed(request, **{SIGNATURES[kind].replace("-", "_"): value[:length]})
        why(source(kind), shorter)


@kinds
def test_signature_that_is_there_twice_is_ambiguous(kind: Kind) -> None:
    request = signed(source(kind))
    name = SIGNATURES[kind].encode()
    twice = WebhookRequest(headers=[*request.headers, (name, b"sha256=00")], body=request.body)
    assert why(source(kind), twice) is Why.AMBIGUOUS


@kinds
@pytest.mark.parametrize(
    "value",
    ["é".encode(), b"\xff\xfe", b"\x00", b"x" * 60_000, b",".join([b"v1=x"] * 9_000), b"v1, " * 9_000],
)
def test_garbage_in_place_of_a_signature_is_rejected(kind: Kind, value: bytes) -> None:
    why(source(kind), changed(signed(source(kind)), **{SIGNATURES[kind].replace("-", "_"): value}))


@kinds
def test_both_secrets_are_accepted_until_the_old_one_expires(kind: Kind) -> None:
    old = source(kind, secrets=(Secret(text=OTHER),))
    both = source(kind, secrets=(Secret(text=SECRET), Secret(text=OTHER, valid_until_ms=NOW_MS + 1_000)))
    verify(both, signed(source(kind)), NOW_MS)
    verify(both, signed(old), NOW_MS + 999)
    assert why(both, signed(old), NOW_MS + 1_000) is Why.MISMATCH


@pytest.mark.parametrize("kind", ["stripe", "standard", "plain-hmac"])
def test_time_of_a_signature_may_differ_by_the_tolerance_in_both_directions(kind: Kind) -> None:
    by = source(kind, tolerance_s=300)
    request = signed(by)
    verify(by, request, NOW_MS + 300_000)
    verify(by, request, NOW_MS - 300_000)
    assert why(by, request, NOW_MS + 300_001) is Why.EXPIRED
    assert why(by, request, NOW_MS - 300_001) is Why.FUTURE


@given(st.binary(max_size=2_000))
def test_no_header_makes_a_verifier_fail_otherwise(value: bytes) -> None:
    for kind in SIGNED_KINDS:
        request = signed(source(kind))
        assert value != header(request, SIGNATURES[kind])
        why(source(kind), changed(request, **{SIGNATURES[kind].replace("-", "_"): value}))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"-1",
        b"+1",
        b" 1",
        b"1 ",
        b"1.5",
        b"1e9",
        b"0x10",
        b"1_000",
        b"abc",
        b"nan",
        b"inf",
        b"9" * 13,
        b"9" * 5_000,
        "١٢٣".encode(),
        "１２".encode(),
        b"1\n",
    ],
)
def test_time_that_is_not_plain_digits_is_malformed(text: bytes) -> None:
    with pytest.raises(Rejected) as caught:
        seconds(text)
    assert caught.value.why is Why.MALFORMED


def test_largest_time_is_in_the_future_and_the_smallest_is_expired() -> None:
    for text, expected in ((b"9" * 12, Why.FUTURE), (b"0", Why.EXPIRED)):
        with pytest.raises(Rejected) as caught:
            check_time(seconds(text), NOW_MS, 300)
        assert caught.value.why is expected


def test_more_signatures_than_a_sender_has_secrets_are_rejected() -> None:
    check_match([b"a"], [b"b"] * (SIGNATURES_MAX - 1) + [b"a"])
    with pytest.raises(Rejected):
        check_match([b"a"], [b"b"] * SIGNATURES_MAX + [b"a"])


def test_nothing_matches_without_a_valid_secret() -> None:
    with pytest.raises(Rejected):
        check_match([], [b""])
