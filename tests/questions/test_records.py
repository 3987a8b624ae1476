"""Questions and answers on the wire."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headrace.errors import HeadraceError
from headrace.questions.errors import BadQuestion, Overloaded, QuestionFailed
from headrace.questions.records import (
    Answer,
    ErrorReply,
    Heartbeat,
    Reply,
    asked,
    check_question,
    correlation_id_of,
    question_headers,
)

ANSWER = Answer(question="reach", value={"n": 3}, job="posts", batch_id=4, partitions=32, missing=(7,))


def test_answer_survives_the_wire() -> None:
    read = Reply.from_json(Reply(answer=ANSWER).to_json())
    assert read.answer == ANSWER
    assert read.error is None
    assert ANSWER.is_partial


def test_values_of_numpy_and_arrow_become_json() -> None:
    value = {"n": np.int64(3), "all": np.arange(2), "rows": pa.array([1, None]), "at": object}
    answer = Answer(question="q", value=value, job="j", batch_id=None, partitions=0)
    read = Reply.from_json(Reply(answer=answer).to_json()).answer
    assert read is not None
    assert read.value == {"n": 3, "all": [0, 1], "rows": [1, None], "at": "<class 'object'>"}


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (BadQuestion("bad", hint="h"), BadQuestion),
        (Overloaded("full"), Overloaded),
        (HeadraceError("other"), QuestionFailed),
    ],
)
def test_error_keeps_its_kind(sent: HeadraceError, received: type[QuestionFailed]) -> None:
    reply = Reply.from_json(Reply(error=ErrorReply.of(sent)).to_json())
    assert reply.error is not None
    error = reply.error.to_error()
    assert type(error) is received
    assert (error.message, error.hint) == (sent.message, sent.hint)


def test_question_survives_the_wire() -> None:
    found = asked(question_headers("abc", 1_000), b"{}")
    assert found is not None
    assert (found.correlation_id, found.expires_ms, found.payload) == ("abc", 1_000, b"{}")


@pytest.mark.parametrize(
    "headers",
    [
        None,
        [("headrace-correlation-id", b"abc")],
        [("headrace-expires-ms", b"5")],
        [("headrace-correlation-id", b"abc"), ("headrace-expires-ms", b"soon")],
        [("headrace-correlation-id", b"abc"), ("headrace-expires-ms", None)],
        [("headrace-correlation-id", b"abc"), ("headrace-expires-ms", b"1" * 5_000)],
        [("headrace-correlation-id", None), ("headrace-expires-ms", b"5")],
    ],
)
def test_record_without_correlation_id_or_time_out_is_no_question(
    headers: list[tuple[str, str | bytes | None]] | None,
) -> None:
    assert asked(headers, b"{}") is None


def test_correlation_id_of_a_foreign_record_is_missing() -> None:
    assert correlation_id_of([("other", b"x")]) is None


def test_heartbeat_is_metadata_of_an_offset() -> None:
    heartbeat = Heartbeat(job="posts", at_ms=5)
    assert Heartbeat.from_text(heartbeat.to_text()) == heartbeat
    assert Heartbeat.from_text("of another program") is None
    assert Heartbeat.from_text(None) is None


@pytest.mark.parametrize("name", ["", "a b", "../x", ".x", "x" * 300])
def test_name_that_no_topic_can_have_is_rejected(name: str) -> None:
    with pytest.raises(HeadraceError):
        check_question(name)
