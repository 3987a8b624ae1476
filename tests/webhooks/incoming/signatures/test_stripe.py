"""Stripe's signature, written from its documentation."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.webhooks.incoming.request import WebhookRequest
from headrace.webhooks.incoming.signatures import stripe
from headrace.webhooks.incoming.signatures.verdict import Rejected, Why
from headrace.webhooks.secrets import Secret
from tests.webhooks.incoming.sending import source

SECRET = "whsec_test_secret"
BODY = b'{"id": "evt_1", "type": "charge.succeeded"}'
BY = source("stripe", secrets=(Secret(text=SECRET),))
NOW_MS = 1_492_774_577_000


def by_hand(body: bytes, timestamp: str = "1492774577", secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()


def request(signature: str, body: bytes = BODY) -> WebhookRequest:
    return WebhookRequest(headers=[(b"stripe-signature", signature.encode())], body=body)


@pytest.mark.parametrize(
    "form",
    [
        "t=1492774577,v1={right}",
        "t=1492774577,v1={right},v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39",
        "t=1492774577,v1={wrong},v1={right}",
        "v1={right}, t=1492774577",
        "t=1492774577,v1={right},later=unknown",
    ],
)
def test_one_right_signature_of_version_1_is_enough(form: str) -> None:
    stripe.verify(BY, request(form.format(right=by_hand(BODY), wrong="0" * 64)), NOW_MS)


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ("t=1492774577,v0={right}", Why.MISSING),
        ("v1={right}", Why.MISSING),
        ("t=1492774577", Why.MISSING),
        ("t=,v1={right}", Why.MALFORMED),
        ("t=-1492774577,v1={right}", Why.MALFORMED),
        ("t=1492774577,v1", Why.MALFORMED),
        ("t=1492774577;v1={right}", Why.MISSING),
        ("t=1492774577,t=1492774578,v1={right}", Why.AMBIGUOUS),
        ("t=1492774577,t=1492774577,v1={right}", Why.AMBIGUOUS),
        ("t=1492774578,v1={right}", Why.MISMATCH),
        ("t=01492774577,v1={right}", Why.MISMATCH),
        ("t=1492774577,v1=", Why.MISMATCH),
        ("t=1492774577,v1={upper}", Why.MISMATCH),
    ],
)
def test_other_headers_are_rejected(form: str, why: Why) -> None:
    right = by_hand(BODY)
    with pytest.raises(Rejected) as caught:
        stripe.verify(BY, request(form.format(right=right, upper=right.upper())), NOW_MS)
    assert caught.value.why is why


def test_secret_is_the_whole_text_with_its_prefix() -> None:
    right = by_hand(BODY, secret="test_secret")
    with pytest.raises(Rejected):
        stripe.verify(BY, request(f"t=1492774577,v1={right}"), NOW_MS)


@given(st.lists(st.tuples(st.sampled_from([b"t", b"v1", b"v0", b"x"]), st.binary(max_size=20))))
def test_parser_gives_every_signature_and_the_only_time(parts: list[tuple[bytes, bytes]]) -> None:
    clean = [(name, value.replace(b",", b"").strip(b" ")) for name, value in parts]
    times = [value for name, value in clean if name == b"t"]
    signatures = [value for name, value in clean if name == b"v1"]
    text = b",".join(name + b"=" + value for name, value in clean)
    try:
        parsed = stripe.parse(text)
    except Rejected:
        assert len(times) != 1 or not signatures
    else:
        assert [parsed.timestamp] == times
        assert parsed.signatures == signatures


@given(st.binary())
def test_parser_rejects_or_parses_any_bytes(text: bytes) -> None:
    try:
        parsed = stripe.parse(text)
    except Rejected:
        return
    assert parsed.signatures
