"""Failed requests have the code, the client's text, and the next thing to try."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from headrace.kafka.errors import no_such_topic, request_failed


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (KafkaError._TRANSPORT, "is the broker running"),
        (KafkaError.NON_EMPTY_GROUP, "headrace group describe"),
        (KafkaError.INVALID_CONFIG, "--all-configs"),
    ],
)
def test_code_has_its_hint(code: int, hint: str) -> None:
    failed = request_failed(KafkaError(code), "changing it")

    assert failed.code == code
    assert failed.message.startswith("changing it: ")
    assert hint in failed.hint


def test_code_without_a_hint_has_the_clients_text() -> None:
    failed = request_failed(KafkaError(KafkaError.REBALANCE_IN_PROGRESS), "joining")

    assert (failed.hint, failed.code) == ("", KafkaError.REBALANCE_IN_PROGRESS)


def test_missing_topic_names_the_nearest_or_how_to_create_it() -> None:
    missing = no_such_topic("clickz", ["clicks", "orders"])

    assert str(missing) == "there is no topic clickz (did you mean clicks?)"
    assert str(no_such_topic("users", ["clicks"])) == (
        "there is no topic users (`headrace topic create users` creates it)"
    )
    assert missing.code == KafkaError.UNKNOWN_TOPIC_OR_PART
