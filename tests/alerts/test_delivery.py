"""A message on its way: found by its alert and target, rendered, and sent."""

from __future__ import annotations

import pytest

from headrace.alerts.definition import RETRY_FOR_MS, Alert, Target, Templates
from headrace.alerts.delivery import Delivery
from headrace.alerts.errors import DeliveryFailed
from headrace.alerts.message import Waiting
from tests.alerts.servers import HttpServer
from tests.alerts.targets.messages import firing


def alert(address: str, **templates: str) -> Alert:
    return Alert(
        name="errors",
        id="a1",
        topic="logs",
        created_ms=0,
        to=(Target(id="t", address=address),),
        templates=Templates(**templates),
        retry_for_ms=5,
    )


def test_message_has_the_text_of_its_templates(http: HttpServer) -> None:
    delivery = Delivery(None)
    delivery.alerts = {"errors": alert(http.url, title="{{ key.service }} fails")}
    waiting = Waiting(message=firing(), target="t")
    assert delivery.deliver(waiting) == ""
    assert http.bodies()[0]["title"] == "checkout fails"
    assert (delivery.address(waiting), delivery.retry_for_ms(waiting)) == (http.url, 5)


def test_template_that_fails_is_a_remark(http: HttpServer) -> None:
    delivery = Delivery(None)
    delivery.alerts = {"errors": alert(http.url, body="{{ nothing.at.all }}")}
    assert "the template failed" in delivery.deliver(Waiting(message=firing(), target="t"))
    assert "the template failed" in http.bodies()[0]["text"]


@pytest.mark.parametrize("target", ["t", "other"])
def test_message_of_an_alert_or_a_target_that_was_removed_is_final(target: str) -> None:
    delivery = Delivery(None)
    delivery.alerts = {} if target == "t" else {"errors": alert("https://host")}
    waiting = Waiting(message=firing(), target=target)
    with pytest.raises(DeliveryFailed, match="was removed") as failed:
        delivery.deliver(waiting)
    assert failed.value.is_final
    assert delivery.address(waiting) == ""
    assert delivery.retry_for_ms(waiting) in (5, RETRY_FOR_MS)


def test_address_that_is_not_valid_any_more_is_final() -> None:
    delivery = Delivery(None)
    delivery.alerts = {"errors": alert("webpush://subscription")}
    with pytest.raises(DeliveryFailed, match="needs keys") as failed:
        delivery.deliver(Waiting(message=firing(), target="t"))
    assert failed.value.is_final
