"""What passes is tried again, what does not is raised, and nothing is tried for ever."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from headrace.kafka.errors import RequestFailed
from headrace.kafka.retries import retry


class Failing:
    """Fails so often with a code, and then answers."""

    def __init__(self, code: int, times: int) -> None:
        self.calls = 0
        self._code = code
        self._times = times

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self._times:
            raise RequestFailed("not yet", code=self._code)
        return "answer"


def test_transient_error_is_tried_again_until_the_answer() -> None:
    call = Failing(KafkaError.LEADER_NOT_AVAILABLE, times=2)

    assert retry(call, timeout_s=30) == "answer"
    assert call.calls == 3


def test_other_error_is_raised_at_once() -> None:
    call = Failing(KafkaError.TOPIC_AUTHORIZATION_FAILED, times=1)

    with pytest.raises(RequestFailed, match="not yet"):
        retry(call, timeout_s=30)
    assert call.calls == 1


def test_transient_error_is_raised_when_the_time_is_over() -> None:
    call = Failing(KafkaError.LEADER_NOT_AVAILABLE, times=1_000_000)

    with pytest.raises(RequestFailed, match="not yet"):
        retry(call, timeout_s=0)
    assert call.calls == 1


def test_caller_may_name_the_codes() -> None:
    with pytest.raises(RequestFailed):
        retry(Failing(KafkaError.LEADER_NOT_AVAILABLE, times=1), timeout_s=30, codes=())
