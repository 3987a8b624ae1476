"""GitHub's signature, with the example of GitHub's documentation."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from headrace.webhooks.incoming.request import WebhookRequest
from headrace.webhooks.incoming.signatures import github
from headrace.webhooks.incoming.signatures.verdict import Rejected, Why
from headrace.webhooks.secrets import Secret
from tests.webhooks.incoming.sending import NOW_MS, changed, header, signed, source

DOCUMENTED = source("github", secrets=(Secret(text="It's a Secret to Everybody"),))
SIGNATURE = b"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"


def test_example_of_the_documentation_is_accepted() -> None:
    request = WebhookRequest(headers=[(b"x-hub-signature-256", SIGNATURE)], body=b"Hello, World!")
    github.verify(DOCUMENTED, request, NOW_MS)
    assert github.signature("It's a Secret to Everybody", b"Hello, World!") == SIGNATURE


def test_secret_that_is_not_ascii_signs_as_utf8() -> None:
    expected = hmac.new("schlüssel".encode(), b"x", hashlib.sha256).hexdigest()
    assert github.signature("schlüssel", b"x") == b"sha256=" + expected.encode()


@pytest.mark.parametrize("prefix", [b"", b"sha1=", b"sha512=", b"SHA256=", b"sha256:"])
def test_other_algorithm_is_rejected(prefix: bytes) -> None:
    request = signed(source("github"))
    value = prefix + header(request, "x-hub-signature-256").removeprefix(b"sha256=")
    with pytest.raises(Rejected) as caught:
        github.verify(source("github"), changed(request, x_hub_signature_256=value), NOW_MS)
    assert caught.value.why is Why.MISMATCH


def test_old_signature_with_sha1_alone_is_not_accepted() -> None:
    digest = hmac.new(b"s", b"x", hashlib.sha1).hexdigest()
    request = WebhookRequest(headers=[(b"x-hub-signature", b"sha1=" + digest.encode())], body=b"x")
    with pytest.raises(Rejected) as caught:
        github.verify(source("github", secrets=(Secret(text="s"),)), request, NOW_MS)
    assert caught.value.why is Why.MISSING
