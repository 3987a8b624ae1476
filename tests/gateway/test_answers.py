from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaError

from headrace.errors import HeadraceError
from headrace.gateway.answers import as_gateway_error, error_response, retry_after
from headrace.gateway.errors import Overloaded
from headrace.kafka.errors import RequestFailed


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, 404),
        (KafkaError._TRANSPORT, 503),
        (KafkaError._ALL_BROKERS_DOWN, 503),
        (None, 503),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, 500),
    ],
)
def test_failure_of_the_broker_has_its_status(code: int | None, status: int) -> None:
    assert as_gateway_error(RequestFailed("it failed", code=code)).status == status


def test_error_has_the_form_of_the_rest_proxy_with_a_hint() -> None:
    response = error_response(HeadraceError("wrong", hint="do this"), retry_after_s_max=5)
    assert (response.status_code, json.loads(bytes(response.body))) == (
        400,
        {"error_code": 400, "message": "wrong", "hint": "do this"},
    )
    assert "Retry-After" not in response.headers


def test_clients_that_are_rejected_together_come_back_at_different_times() -> None:
    assert int(error_response(Overloaded("full"), retry_after_s_max=5).headers["Retry-After"]) in range(1, 6)
    assert len({retry_after(5) for _ in range(200)}) == 5
