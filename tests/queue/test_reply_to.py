"""Where a reply goes, as headers."""

from __future__ import annotations

import pytest

from headrace.queue.errors import QueueError
from headrace.queue.reply_to import (
    DEADLINE_HEADER,
    REPLY_PARTITION_HEADER,
    REQUEST_ID_HEADER,
    ReplyTo,
    content,
    reply_to,
)

TO = ReplyTo("client/7", 3, 1_700_000_000_000)


def test_headers_say_where_the_reply_goes() -> None:
    assert reply_to([("trace", b"1"), *TO.headers()]) == TO


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        (REQUEST_ID_HEADER, b""),
        (REQUEST_ID_HEADER, None),
        (REPLY_PARTITION_HEADER, b"-1"),
        (REPLY_PARTITION_HEADER, b"x"),
        (REPLY_PARTITION_HEADER, None),
        (REPLY_PARTITION_HEADER, b"1" * 10),
        (DEADLINE_HEADER, b""),
        (DEADLINE_HEADER, b"soon"),
        (DEADLINE_HEADER, b"1" * 5_000),
    ],
)
def test_wrong_headers_are_no_request(name: str, wrong: bytes | None) -> None:
    assert reply_to([*TO.headers(), (name, wrong)]) is None


@pytest.mark.parametrize(("value", "expected"), [(None, b""), ("tée", "tée".encode()), (b"\xff", b"\xff")])
def test_values_are_bytes_or_text(value: bytes | str | None, expected: bytes) -> None:
    assert content(value) == expected


def test_other_values_are_rejected() -> None:
    with pytest.raises(QueueError, match="not list") as caught:
        content([1])  # type: ignore[arg-type]
    assert "JSON" in caught.value.hint
