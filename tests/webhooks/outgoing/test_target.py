"""Definitions that do not fit together are rejected before they are written."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.webhooks.errors import BadWebhook
from headrace.webhooks.outgoing.target import HEADERS_MAX, Target
from headrace.webhooks.secrets import Secret, generate_secret

SECRETS = (Secret(text=generate_secret()),)


def target(**fields: Any) -> Target:
    given = {"name": "t", "topic": "orders", "url": "https://shop.example/hook", "secrets": SECRETS}
    return Target(**{**given, **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"topic": "", "queue": "emails"},
        {"filter": "amount > 100 AND order.city = 'Oslo'"},
        {"headers": {"Authorization": "Bearer t", "X-Shop": "1"}},
        {"url": "http://127.0.0.1:8080/", "allow_inside": True},
    ],
)
def test_valid_definition_is_accepted(fields: dict[str, Any]) -> None:
    target(**fields).check()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"topic": ""}, "needs a topic or a queue"),
        ({"queue": "emails"}, "needs a topic or a queue"),
        ({"url": "http://127.0.0.1/"}, "not encrypted"),
        ({"url": "https://2130706433/"}, "not an address in its usual form"),
        ({"secrets": ()}, "has no secret"),
        ({"secrets": (Secret(text="not base64!"),)}, "not one of Standard Webhooks"),
        ({"parallel": 0}, "--parallel is 0"),
        ({"parallel": 1_000}, "--parallel is 1,000"),
        ({"timeout_ms": 0}, "--timeout"),
        ({"timeout_ms": 10**9}, "--timeout"),
        ({"topic": "", "queue": "emails", "timeout_ms": 30_000}, "longer than the lock"),
        ({"filter": "amount >"}, "--filter"),
        ({"headers": {"Webhook-Id": "x"}}, "is set by each request"),
        ({"headers": {"Host": "x"}}, "is set by each request"),
        ({"headers": {"transfer-encoding": "chunked"}}, "is set by each request"),
        ({"headers": {"a b": "x"}}, "can't be the name of a header"),
        ({"headers": {"a": "x\r\nb: y"}}, "has a value that can't be sent"),
        ({"headers": {"a": "é"}}, "has a value that can't be sent"),
        ({"headers": {f"a{each}": "x" for each in range(HEADERS_MAX + 1)}}, "there are 33 headers"),
    ],
)
def test_other_definition_is_rejected(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadWebhook, match=problem):
        target(**fields).check()


def test_secret_is_not_in_the_text_of_a_definition() -> None:
    assert SECRETS[0].text not in repr(target())
