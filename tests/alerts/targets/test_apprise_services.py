"""Services of apprise: one of them posts JSON to a real server."""

from __future__ import annotations

import pytest

from headrace.alerts.errors import BadAlert, DeliveryFailed
from headrace.alerts.targets.apprise_services import AppriseSender
from tests.alerts.servers import HttpServer
from tests.alerts.targets.messages import CONTENT, firing


def test_service_of_apprise_gets_the_message(http: HttpServer) -> None:
    AppriseSender(http.url.replace("http://", "json://")).send(firing(), CONTENT)
    (body,) = http.bodies()
    assert (body["title"], body["message"], body["type"]) == ("title", "text", "failure")


def test_failure_has_the_reason_of_apprise_without_the_password(http: HttpServer) -> None:
    http.statuses.append(500)
    address = http.url.replace("http://", "json://ann:secret@")
    with pytest.raises(DeliveryFailed, match="500") as failed:
        AppriseSender(address).send(firing(), CONTENT)
    assert "secret" not in failed.value.reason


def test_address_that_apprise_does_not_know_is_an_error() -> None:
    with pytest.raises(BadAlert, match="does not know"):
        AppriseSender("carrier-pigeon://loft")
