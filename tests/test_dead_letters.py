"""The scheme of dead letters that queues and jobs share."""

from __future__ import annotations

from headrace.dead_letters import REASON_HEADER, TOPIC_HEADER, dead_letter_topic, is_error_header, with_errors


def test_topic_is_named_after_the_group_or_job() -> None:
    assert dead_letter_topic("senders") == "dlq.senders"


def test_headers_of_the_record_come_first_and_those_of_an_earlier_failure_are_dropped() -> None:
    own = [("trace", b"\x01"), (REASON_HEADER, b"failed before"), ("none", None)]
    assert with_errors(own, {TOPIC_HEADER: "clicks", REASON_HEADER: "not JSON"}) == (
        ("trace", b"\x01"),
        ("none", None),
        (TOPIC_HEADER, b"clicks"),
        (REASON_HEADER, b"not JSON"),
    )


def test_error_headers_are_recognized_by_their_prefix() -> None:
    assert is_error_header(REASON_HEADER)
    assert not is_error_header("headrace.redrive.count")
