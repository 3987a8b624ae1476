"""A dead letter is read from the headers that were written, and a damaged or foreign one is still readable."""

from __future__ import annotations

import pytest
from confluent_kafka import Message as KafkaMessage

from headrace.dead_letters import (
    DELIVERY_COUNT_HEADER,
    OPERATOR_HEADER,
    PARTITION_HEADER,
    TIMESTAMP_HEADER,
    TOPIC_HEADER,
    TRUNCATED_HEADER,
    Header,
)
from headrace.queue.letters import REDRIVE_COUNT_HEADER, letter_headers, read_letter, redriven_headers
from headrace.queue.message import MessageId
from headrace.queue.reply_to import ReplyTo

ORIGINAL = MessageId("emails", 3, 41)


def record(headers: list[Header]) -> KafkaMessage:
    return KafkaMessage(
        topic="dlq.senders",
        partition=0,
        offset=7,
        key=b"k",
        value=b"hello",
        headers=[*headers],
        timestamp=(1, 99),
    )


def written(*original: Header, delivery_count: int = 2) -> list[Header]:
    return letter_headers(
        [*original],
        original=ORIGINAL,
        group="senders",
        delivery_count=delivery_count,
        reason="no such mailbox",
    )


def test_letter_has_the_message_its_id_and_the_reason() -> None:
    letter = read_letter(record(written(("colour", b"red"), ("empty", None))))

    assert (letter.id, letter.timestamp_ms) == (MessageId("dlq.senders", 0, 7), 99)
    assert (letter.original, letter.group, letter.delivery_count) == (ORIGINAL, "senders", 2)
    assert (letter.reason, letter.redrive_count) == ("no such mailbox", 0)
    assert (letter.key, letter.value) == (b"k", b"hello")
    assert letter.headers == [("colour", b"red"), ("empty", None)]


def test_letter_of_a_redriven_message_has_the_errors_of_its_last_rejection_only() -> None:
    first = written(("colour", b"red"), delivery_count=5)
    letter = read_letter(record(written(*first)))

    assert letter.delivery_count == 2
    assert letter.headers == [("colour", b"red")]


def test_redrive_counts_and_keeps_the_original_headers() -> None:
    once = redriven_headers(read_letter(record(written(("colour", b"red")))))
    assert once == [("colour", b"red"), (REDRIVE_COUNT_HEADER, b"1")]

    twice = redriven_headers(read_letter(record(written(*once))))
    assert twice == [("colour", b"red"), (REDRIVE_COUNT_HEADER, b"2")]


def test_redriven_request_asks_for_no_reply() -> None:
    request = ReplyTo("client/7", 3, 1_700_000_000_000).headers()
    again = redriven_headers(read_letter(record(written(("colour", b"red"), *request))))
    assert again == [("colour", b"red"), (REDRIVE_COUNT_HEADER, b"1")]


@pytest.mark.parametrize("number", [b"many", b"-1", b"", b"\xff", None])
def test_number_that_cannot_be_parsed_is_replaced_by_its_default(number: bytes | None) -> None:
    letter = read_letter(
        record([(TOPIC_HEADER, b"emails"), (PARTITION_HEADER, number), (DELIVERY_COUNT_HEADER, number)])
    )
    assert letter.original == MessageId("emails", -1, -1)
    assert letter.delivery_count == 0


def test_record_without_error_headers_has_no_original() -> None:
    letter = read_letter(record([("colour", b"red")]))
    assert (letter.original, letter.group, letter.reason) == (None, "", "")


@pytest.mark.parametrize("header", [TRUNCATED_HEADER, OPERATOR_HEADER])
def test_letter_without_the_value_of_its_original_can_not_be_redriven(header: str) -> None:
    assert read_letter(record(written())).can_be_redriven
    assert not read_letter(record([*written(), (header, b"1")])).can_be_redriven
    assert not read_letter(record([])).can_be_redriven


def test_only_a_letter_with_the_time_of_its_original_identifies_the_record() -> None:
    assert read_letter(record(written())).record is None
    letter = read_letter(record([*written(), (TIMESTAMP_HEADER, b"2026-11-16T12:00:00.000Z")]))
    assert letter.record == "emails-3@41 2026-11-16T12:00:00.000Z"
