"""Signatures of Standard Webhooks, verified by the library of the standard."""

from __future__ import annotations

import base64
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from headrace.webhooks.outgoing.signing import SIGNATURE_HEADER, Signer
from headrace.webhooks.secrets import Secret, generate_secret

NOW_MS = 1_700_000_000_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_example_of_the_standard_has_its_signature() -> None:
    signer = Signer([Secret(text="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")])
    headers = signer.headers("msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', 1614265330_000)
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@given(st.binary(min_size=24, max_size=64), st.text())
def test_library_of_the_standard_accepts_every_signature(key: bytes, text: str) -> None:
    secret = "whsec_" + base64.b64encode(key).decode()
    body = text.encode(errors="replace")
    headers = Signer([Secret(text=secret)]).headers("msg_1", body, now_ms())
    Webhook(secret).verify(body, headers, json_parse=False)


def test_changed_body_or_id_is_rejected_by_the_library() -> None:
    secret = generate_secret()
    headers = Signer([Secret(text=secret)]).headers("msg_1", b"{}", now_ms())
    for body, changed in ((b"{ }", headers), (b"{}", {**headers, "webhook-id": "msg_2"})):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(body, changed)


def test_during_a_rotation_both_secrets_sign() -> None:
    old, new = generate_secret(), generate_secret()
    signer = Signer([Secret(text=new), Secret(text=old, valid_until_ms=now_ms() + 60_000)])
    headers = signer.headers("msg_1", b"{}", now_ms())
    for secret in (old, new):
        Webhook(secret).verify(b"{}", headers)


def test_secret_whose_time_is_over_signs_no_more() -> None:
    old, new = generate_secret(), generate_secret()
    signer = Signer([Secret(text=new), Secret(text=old, valid_until_ms=NOW_MS)])
    assert len(signer.headers("msg_1", b"{}", NOW_MS - 1)[SIGNATURE_HEADER].split(" ")) == 2
    assert len(signer.headers("msg_1", b"{}", NOW_MS)[SIGNATURE_HEADER].split(" ")) == 1
