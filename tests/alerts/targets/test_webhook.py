"""Webhooks to a real HTTP server: the signature that the reference library verifies, and statuses."""

from __future__ import annotations

import base64
import json

import pytest
from standardwebhooks import Webhook

from headrace.alerts.errors import BadAlert, DeliveryFailed
from headrace.alerts.targets.webhook import WebhookSender
from tests.alerts.servers import HttpServer
from tests.alerts.targets.messages import CONTENT, firing

SECRET = "whsec_" + base64.b64encode(b"secret of 24 bytes, more or less").decode()


def test_webhook_is_signed_and_its_secret_is_not_sent(http: HttpServer) -> None:
    WebhookSender(f"{http.url}?team=red#{SECRET}").send(firing(), CONTENT)
    ((path, headers, body),) = http.requests
    assert path == "/hook?team=red"
    verified = Webhook(SECRET).verify(body, headers)
    assert (verified["type"], verified["title"], verified["data"]["id"]) == ("alert.firing", "title", "a1-7")
    assert verified["data"]["firing"][0]["key"] == {"service": "checkout"}
    assert headers["webhook-id"] == "a1-7"
    assert SECRET not in str(headers)


def test_webhook_without_a_secret_has_an_id_and_no_signature(http: HttpServer) -> None:
    WebhookSender(http.url).send(firing(), CONTENT)
    ((_, headers, body),) = http.requests
    assert headers["webhook-id"] == "a1-7"
    assert "webhook-signature" not in headers
    assert json.loads(body)["data"]["firing_count"] == 1


@pytest.mark.parametrize(
    ("status", "is_final"), [(500, False), (503, False), (429, False), (302, False), (400, True), (410, True)]
)
def test_only_2xx_is_taken(http: HttpServer, status: int, is_final: bool) -> None:
    http.statuses.append(status)
    with pytest.raises(DeliveryFailed, match=f"responds {status}") as failed:
        WebhookSender(http.url).send(firing(), CONTENT)
    assert failed.value.is_final is is_final
    assert len(http.requests) == 1  # a redirect is not followed


@pytest.mark.parametrize(
    "address", ["https:///path", "https://host#secret", "https://host#whsec_", "https://[::1"]
)
def test_bad_address_is_an_error(address: str) -> None:
    with pytest.raises(BadAlert) as failed:
        WebhookSender(address)
    assert failed.value.hint
