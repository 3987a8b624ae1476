"""Samples are signed as the sender of each kind does it."""

from __future__ import annotations

import shlex

import pytest

from headrace.webhooks.incoming.event_of import event_of, identity_of
from headrace.webhooks.incoming.sample import sample_of
from headrace.webhooks.incoming.signatures import verify
from headrace.webhooks.incoming.source import HmacRule, Kind
from tests.webhooks.incoming.sending import NOW_MS, SECRET, SIGNED_KINDS, source


@pytest.mark.parametrize("kind", [*SIGNED_KINDS, "none"])
def test_sample_is_verified_and_has_every_field_that_the_source_reads(kind: Kind) -> None:
    own = kind in ("plain-hmac", "none")
    by = source(
        kind,
        key_field="a.b",
        event_field="a.c",
        **({"id_field": "meta.id"} if own else {}),
        headers=("X-One",),
    )
    sample = sample_of(by, message_id="m", now_ms=NOW_MS)
    verify(by, sample.request(), NOW_MS)
    event = event_of(by, sample.request(), identity_of(by, sample.request()))
    assert event.key == b"test"
    assert dict(event.headers)["webhook-id"] == b"m"
    assert dict(event.headers)["webhook-event"] == b"headrace.test"


def test_sample_has_signed_headers_of_its_own() -> None:
    rule = HmacRule(signed="{id}{timestamp}{body}", timestamp_header="X-Time", header="X-Sign")
    by = source("plain-hmac", hmac=rule, id_header="X-Id", key_header="X-Key", event_header="X-Event")
    sample = sample_of(by, message_id="m", now_ms=NOW_MS, body=b"\xff")
    verify(by, sample.request(), NOW_MS)
    assert event_of(by, sample.request(), identity_of(by, sample.request())).key == b"test"


def test_command_for_the_shell_has_the_signature_and_not_the_secret() -> None:
    sample = sample_of(source(), message_id="m", now_ms=NOW_MS, body=b"it's $(rm -rf /)")
    words = shlex.split(sample.curl("http://127.0.0.1:1/webhooks/sample"))
    assert words[:3] == ["curl", "--data-binary", "it's $(rm -rf /)"]
    assert words[-1] == "http://127.0.0.1:1/webhooks/sample"
    assert any(each.startswith("webhook-signature: v1,") for each in words)
    assert SECRET not in " ".join(words)
