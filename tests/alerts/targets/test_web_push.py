"""Web push to a server that decrypts with the keys of the subscription, and checks who sends."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import http_ece
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from py_vapid import Vapid02

from headrace.alerts.definition import Target
from headrace.alerts.errors import BadAlert, DeliveryFailed
from headrace.alerts.rendering import Rendered
from headrace.alerts.targets.vapid import new_keys
from headrace.alerts.targets.web_push import PAYLOAD_BYTES_MAX, WebPushSender, host_of
from tests.alerts.servers import HttpServer
from tests.alerts.targets.messages import CONTENT, firing

KEYS = new_keys("mailto:ops@example.com")


def text_of(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Browser:
    """The keys that only a browser has, and the subscription that it gives."""

    def __init__(self, endpoint: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._auth = b"0123456789abcdef"
        point = self._key.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )
        keys = {"p256dh": text_of(point), "auth": text_of(self._auth)}
        self.target = Target(
            id="t",
            address="webpush://subscription",
            subscription=json.dumps({"endpoint": endpoint, "keys": keys}),
        )

    def read(self, body: bytes) -> dict[str, Any]:
        plain = http_ece.decrypt(body, private_key=self._key, auth_secret=self._auth, version="aes128gcm")
        found: dict[str, Any] = json.loads(plain)
        return found


def test_browser_decrypts_the_message_and_the_service_knows_the_sender(http: HttpServer) -> None:
    browser = Browser(http.url)
    WebPushSender(browser.target, KEYS).send(firing(), CONTENT)
    ((_, headers, body),) = http.requests
    assert browser.read(body) == {
        "id": "a1-7",
        "alert": "errors",
        "kind": "firing",
        "title": "title",
        "text": "text",
    }
    assert (headers["content-encoding"], headers["topic"]) == ("aes128gcm", "a1-7")
    assert Vapid02.verify(headers["authorization"])
    assert f"k={KEYS.public}" in headers["authorization"]
    assert b"checkout" not in body


def test_long_text_is_cut_to_what_a_push_service_takes(http: HttpServer) -> None:
    browser = Browser(http.url)
    WebPushSender(browser.target, KEYS).send(firing(), Rendered(title="t", text="\x01☃" * 50_000))
    body = http.requests[0][2]
    assert len(body) <= 4_096
    assert 100 < len(browser.read(body)["text"]) < PAYLOAD_BYTES_MAX


@pytest.mark.parametrize(("status", "is_final"), [(404, True), (410, True), (429, False), (500, False)])
def test_subscription_that_has_ended_is_final(http: HttpServer, status: int, is_final: bool) -> None:
    http.statuses.append(status)
    with pytest.raises(DeliveryFailed) as failed:
        WebPushSender(Browser(http.url).target, KEYS).send(firing(), CONTENT)
    assert failed.value.is_final is is_final


@pytest.mark.parametrize(
    "subscription",
    [
        "",
        "7",
        "{}",
        '{"endpoint": "ftp://x"}',
        '{"endpoint": "https://x", "keys": {"p256dh": "a"}}',
        '{"endpoint": "https://x"}',
    ],
)
def test_bad_subscription_is_an_error(subscription: str) -> None:
    with pytest.raises(BadAlert) as failed:
        WebPushSender(Target(id="t", address="webpush://subscription", subscription=subscription), KEYS)
    assert failed.value.hint


def test_web_push_without_keys_names_the_command_that_makes_them() -> None:
    with pytest.raises(BadAlert, match="needs keys") as failed:
        WebPushSender(Browser("https://push.example/1").target, None)
    assert "headrace alert keys" in failed.value.hint
    assert host_of(Browser("https://push.example/secret").target) == "push.example"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
)
SUBSCRIPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "endpoint": st.sampled_from(["https://push.example/1", "https://[", "//x"]) | JSON,
        "keys": st.fixed_dictionaries({}, optional={"p256dh": JSON, "auth": JSON}) | JSON,
    },
)


@given(st.one_of(st.text(), SUBSCRIPTIONS.map(json.dumps), JSON.map(json.dumps)))
def test_any_text_is_a_subscription_or_an_error(text: str) -> None:
    target = Target(id="t", address="webpush://subscription", subscription=text)
    with contextlib.suppress(BadAlert):
        WebPushSender(target, KEYS)


@pytest.mark.parametrize(
    ("which", "wrong"),
    [
        *(("p256dh", wrong) for wrong in ("AAAA", "", "$$$", "B" + "A" * 86)),
        *(("auth", wrong) for wrong in ("", "$$$")),
    ],
)
def test_key_of_a_subscription_that_can_not_encrypt_is_an_error(which: str, wrong: str) -> None:
    subscription = json.loads(Browser("https://push.example/1").target.subscription)
    subscription["keys"][which] = wrong
    target = Target(id="t", address="webpush://subscription", subscription=json.dumps(subscription))
    with pytest.raises(BadAlert) as failed:
        WebPushSender(target, KEYS)
    assert failed.value.hint
