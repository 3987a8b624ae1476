"""Transient errors are retried until a deadline, others are raised."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from headrace.kafka.errors import RequestFailed
from headrace.kafka.retries import retry


class Failing:
    """Fails this often with a code, then returns."""

    def __init__(self, code: int, times: int) -> None:
        self.calls = 0
        self._code = code
        self._times = times

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self._times:
            raise RequestFailed("not yet", code=self._code)
        return "response"


def test_transient_error_is_retried_until_the_response() -> None:
    call = Failing(KafkaError.LEADER_NOT_AVAILABLE, times=2)

    assert retry(call, timeout_s=30) == "response"
    assert call.calls == 3


def test_other_error_is_raised_immediately() -> None:
    call = Failing(KafkaError.TOPIC_AUTHORIZATION_FAILED, times=1)

    with pytest.raises(RequestFailed, match="not yet"):
        retry(call, timeout_s=30)
    assert call.calls == 1


def test_transient_error_is_raised_after_the_timeout() -> None:
    call = Failing(KafkaError.LEADER_NOT_AVAILABLE, times=1_000_000)

    with pytest.raises(RequestFailed, match="not yet"):
        retry(call, timeout_s=0)
    assert call.calls == 1


def test_caller_may_name_the_codes() -> None:
    with pytest.raises(RequestFailed):
        retry(Failing(KafkaError.LEADER_NOT_AVAILABLE, times=1), timeout_s=30, codes=())
