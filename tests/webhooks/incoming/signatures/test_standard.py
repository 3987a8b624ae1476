"""Standard Webhooks: the published vector, and the library as a second opinion."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from headrace.webhooks.incoming.request import WebhookRequest
from headrace.webhooks.incoming.signatures import standard
from headrace.webhooks.incoming.signatures.verdict import Rejected, Why
from headrace.webhooks.secrets import Secret
from tests.webhooks.incoming.sending import SECRET, source

ID, TIMESTAMP, BODY = b"msg_p5jXN8AQM9LWM0D4loKWxJek", b"1614265330", b'{"test": 2432232314}'
SIGNATURE = b"g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
NOW_MS = 1_614_265_330_000
BY = source("standard")


def request(
    signature: bytes, *, message_id: bytes = ID, timestamp: bytes = TIMESTAMP, body: bytes = BODY
) -> WebhookRequest:
    headers = [
        (b"webhook-id", message_id),
        (b"webhook-timestamp", timestamp),
        (b"webhook-signature", signature),
    ]
    return WebhookRequest(headers=headers, body=body)


def test_published_vector_is_accepted() -> None:
    assert standard.signature(SECRET, ID, TIMESTAMP, BODY) == SIGNATURE
    standard.verify(BY, request(b"v1," + SIGNATURE), NOW_MS)


@pytest.mark.parametrize("text", [SECRET, SECRET.removeprefix("whsec_"), "whsec_MTIzNDU2Nw"])
def test_secret_may_have_no_prefix_and_no_padding(text: str) -> None:
    by = source("standard", secrets=(Secret(text=text),))
    given = Webhook(text).sign("m", datetime.fromtimestamp(1_614_265_330, UTC), BODY.decode())
    standard.verify(by, request(given.encode(), message_id=b"m"), NOW_MS)


@pytest.mark.parametrize(
    "form",
    [
        b"v1,%s",
        b"v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= v2,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= v1,%s",
        b"v1a,MEUCIQ== v1,%s",
        b"v1,%s v1,%s",
    ],
)
def test_one_right_signature_of_version_1_is_enough(form: bytes) -> None:
    standard.verify(BY, request(form.replace(b"%s", SIGNATURE)), NOW_MS)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (b"v2," + SIGNATURE, Why.MISSING),
        (b"v1a," + SIGNATURE, Why.MISSING),
        (SIGNATURE, Why.MALFORMED),
        (b"v1", Why.MALFORMED),
        (b"v1, " + SIGNATURE, Why.MALFORMED),
        (b"v1," + SIGNATURE + b" ", Why.MALFORMED),
        (b"v1,", Why.MISMATCH),
        (b"v1," + SIGNATURE.rstrip(b"="), Why.MISMATCH),
        (b"v1," + SIGNATURE[:-2] + b"F=", Why.MISMATCH),
        (b"v1=" + SIGNATURE + b",", Why.MISSING),
    ],
)
def test_other_signatures_are_rejected(given: bytes, why: Why) -> None:
    with pytest.raises(Rejected) as caught:
        standard.verify(BY, request(given), NOW_MS)
    assert caught.value.why is why


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_each_of_the_three_headers_is_needed(missing: str) -> None:
    whole = request(b"v1," + SIGNATURE)
    headers = [each for each in whole.headers if each[0] != missing.encode()]
    with pytest.raises(Rejected) as caught:
        standard.verify(BY, WebhookRequest(headers=headers, body=BODY), NOW_MS)
    assert caught.value.why is Why.MISSING


def test_other_id_or_time_does_not_fit_the_signature() -> None:
    for other in (
        request(b"v1," + SIGNATURE, message_id=b"msg_2"),
        request(b"v1," + SIGNATURE, timestamp=b"1614265331"),
    ):
        with pytest.raises(Rejected) as caught:
            standard.verify(BY, other, NOW_MS)
        assert caught.value.why is Why.MISMATCH


def test_signature_cannot_be_moved_to_another_id_by_a_dot() -> None:
    """`a.1614265330.B` is signed for the id `a`, and for the id `a.1614265330` if ids had dots."""
    body = TIMESTAMP + b"." + BODY
    signed = b"v1," + standard.signature(SECRET, b"a", TIMESTAMP, body)
    standard.verify(BY, request(signed, message_id=b"a", body=body), NOW_MS)
    with pytest.raises(Rejected) as caught:
        standard.verify(BY, request(signed, message_id=b"a." + TIMESTAMP), NOW_MS)
    assert caught.value.why is Why.MALFORMED


@given(
    st.text("abcdefgh_0123", min_size=1, max_size=30),
    st.text(max_size=200),
    st.binary(min_size=24, max_size=64),
)
def test_library_and_headrace_accept_the_signatures_of_each_other(
    message_id: str, body: str, key: bytes
) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    try:
        data = body.encode()
    except UnicodeEncodeError:
        return
    library, timestamp = Webhook(key), str(int(now.timestamp())).encode()
    text = "whsec_" + base64.b64encode(key).decode()
    by = source("standard", secrets=(Secret(text=text),))
    from_library = library.sign(message_id, now, body)
    ours = "v1," + standard.signature(text, message_id.encode(), timestamp, data).decode()
    assert from_library == ours
    whole = request(from_library.encode(), message_id=message_id.encode(), timestamp=timestamp, body=data)
    standard.verify(by, whole, int(now.timestamp()) * 1000)
    headers = {name.decode(): value.decode() for name, value in whole.headers}
    library.verify(data, headers, json_parse=False)
    with pytest.raises(WebhookVerificationError):
        library.verify(data + b"x", headers, json_parse=False)


@given(st.binary())
def test_parser_rejects_or_parses_any_bytes(text: bytes) -> None:
    try:
        signatures = standard.parse(text)
    except Rejected:
        return
    assert all(b"v1," + each in text for each in signatures)
