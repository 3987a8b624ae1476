"""Definitions of sources: what does not fit together is rejected with the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.webhooks.errors import BadWebhook
from headrace.webhooks.incoming.source import HmacRule, Source, sources
from headrace.webhooks.secrets import Secret
from tests.webhooks.incoming.sending import RULE, SECRET, source


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": "../x"}, "can't be the name"),
        ({"topic": "a b"}, "can't be a topic's name"),
        ({"secrets": ()}, "1 to 5 secrets, not 0"),
        ({"secrets": (Secret(text="a"),) * 6}, "1 to 5 secrets, not 6"),
        ({"secrets": (Secret(text="not base64!"),)}, "not one of Standard Webhooks"),
        ({"kind": "none", "secrets": (Secret(text=SECRET),)}, "has no secret"),
        ({"hmac": RULE}, "do not fit together"),
        ({"kind": "plain-hmac", "hmac": None}, "do not fit together"),
        ({"kind": "plain-hmac", "hmac": HmacRule(signed="x")}, "not what a sender signs"),
        ({"kind": "plain-hmac", "hmac": HmacRule(signed="{body}{body}")}, "not what a sender signs"),
        ({"kind": "plain-hmac", "hmac": HmacRule(signed="{body}{other}")}, "not what a sender signs"),
        ({"kind": "plain-hmac", "hmac": HmacRule(timestamp_header="x-time")}, "only if it is signed"),
        ({"kind": "plain-hmac", "hmac": HmacRule(signed="{timestamp}{body}")}, "only if it is signed"),
        ({"kind": "plain-hmac", "hmac": HmacRule(signed="{id}{body}")}, "its header is not set"),
        ({"kind": "plain-hmac", "hmac": HmacRule(header="a b")}, "can't be the name of a header"),
        ({"key_field": "a", "key_header": "b"}, "not both"),
        ({"key_field": "a..b"}, "is not a field"),
        ({"key_header": "a\r\nb"}, "can't be the name of a header"),
        ({"headers": ("x:y",)}, "can't be the name of a header"),
        ({"headers": ("x",) * 21}, "more than 20 headers"),
        ({"id_header": "x-id"}, "have an id of their own"),
        ({"tolerance_s": 0}, "the tolerance is 0"),
        ({"tolerance_s": 100_000}, "the tolerance is 100,000"),
        ({"body_bytes_max": 0}, "the largest body is 0"),
        ({"rate_per_s_max": 0}, "the rate is 0"),
        ({"rate_per_s_max": 1_000}, "ids are fewer than may come while a signature is valid"),
        ({"tolerance_s": 3_600}, "ids are fewer than may come while a signature is valid"),
    ],
)
def test_definition_that_does_not_fit_together_is_rejected(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadWebhook) as caught:
        source(**fields)
    assert problem in caught.value.message
    assert caught.value.hint


def test_id_of_a_signed_request_is_known_for_as_long_as_its_signature_is_valid() -> None:
    """From the tolerance before its time until the tolerance after it."""
    assert source(window_s=0, tolerance_s=300).replay_window_ms == 600_000
    assert source(window_s=86_400).replay_window_ms == 86_400_000
    assert source("github", window_s=0).replay_window_ms == 0


def test_definition_is_read_back_from_its_file(tmp_path: Path) -> None:
    written: Source = source("plain-hmac", key_field="a.b", headers=("X-One",))
    sources(tmp_path).add(written)
    assert sources(tmp_path).get("sample") == written
    assert sources(tmp_path).folder == tmp_path / "webhooks" / "in"


def test_secret_is_not_in_any_text_of_a_definition() -> None:
    assert SECRET not in f"{source()} {source()!r}"
