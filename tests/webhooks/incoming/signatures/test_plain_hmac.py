"""HMACs of other senders: header, algorithm, encoding, prefix, and what is signed."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from headrace.webhooks.incoming.request import WebhookRequest
from headrace.webhooks.incoming.signatures import plain_hmac
from headrace.webhooks.incoming.signatures.verdict import Rejected, Why
from headrace.webhooks.incoming.source import HmacRule, Source
from headrace.webhooks.secrets import Secret
from tests.webhooks.incoming.sending import NOW_MS, source

BODY = b"token=1&text={id} {body} {timestamp}"


def by(rule: HmacRule, **fields: str) -> Source:
    return source("plain-hmac", hmac=rule, secrets=(Secret(text="s3cret"),), **fields)


def request(**headers: bytes) -> WebhookRequest:
    return WebhookRequest(
        headers=[(name.replace("_", "-").encode(), value) for name, value in headers.items()], body=BODY
    )


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512", "sha1"])
@pytest.mark.parametrize("encoding", ["hex", "base64", "base64url"])
def test_every_algorithm_in_every_encoding_is_verified(algorithm: str, encoding: str) -> None:
    digest = hmac.new(b"s3cret", BODY, algorithm).digest()
    encoded = {
        "hex": digest.hex().encode(),
        "base64": base64.b64encode(digest),
        "base64url": base64.urlsafe_b64encode(digest),
    }
    given = b"p=" + encoded[encoding]
    rule = HmacRule(algorithm=algorithm, encoding=encoding, prefix="p=")  # type: ignore[arg-type]
    plain_hmac.verify(by(rule), request(x_signature=given), NOW_MS)
    for wrong in (given[2:], given[:-1] + b"!", given + given):
        with pytest.raises(Rejected):
            plain_hmac.verify(by(rule), request(x_signature=wrong), NOW_MS)


def test_hex_may_be_in_upper_case_but_its_prefix_may_not() -> None:
    digest = hmac.new(b"s3cret", BODY, "sha256").hexdigest().upper().encode()
    rule = HmacRule(prefix="sha256=")
    plain_hmac.verify(by(rule), request(x_signature=b"sha256=" + digest), NOW_MS)
    with pytest.raises(Rejected):
        plain_hmac.verify(by(rule), request(x_signature=b"SHA256=" + digest), NOW_MS)


def test_time_in_front_of_the_body_is_signed_as_slack_does_it() -> None:
    rule = HmacRule(
        header="X-Slack-Signature",
        prefix="v0=",
        signed="v0:{timestamp}:{body}",
        timestamp_header="X-Slack-Request-Timestamp",
    )
    now = str(NOW_MS // 1000).encode()
    digest = hmac.new(b"s3cret", b"v0:" + now + b":" + BODY, hashlib.sha256).hexdigest().encode()
    plain_hmac.verify(
        by(rule), request(x_slack_signature=b"v0=" + digest, x_slack_request_timestamp=now), NOW_MS
    )
    with pytest.raises(Rejected) as caught:
        plain_hmac.verify(by(rule), request(x_slack_signature=b"v0=" + digest), NOW_MS)
    assert caught.value.why is Why.MISSING


def test_braces_in_a_value_are_not_filled_in() -> None:
    rule = HmacRule(signed="{id}.{timestamp}.{body}", timestamp_header="x-time")
    whole = request(x_id=b"{timestamp}{body}", x_time=b"5")
    assert plain_hmac.signed_content(by(rule, id_header="x-id"), whole) == b"{timestamp}{body}.5." + BODY


def test_signed_time_must_be_digits() -> None:
    rule = HmacRule(signed="{timestamp}{body}", timestamp_header="x-time")
    digest = hmac.new(b"s3cret", b"1e9" + BODY, "sha256").hexdigest().encode()
    with pytest.raises(Rejected) as caught:
        plain_hmac.verify(by(rule), request(x_signature=digest, x_time=b"1e9"), NOW_MS)
    assert caught.value.why is Why.MALFORMED
