"""Dead letters as records: their headers state the origin, and they fit into their topic."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.broker.shares.letters import Place, fit, letter, offset_in
from headrace.broker.shares.originals import Original, unread
from headrace.broker.shares.window import DeadRecords
from headrace.records.record import Record, encode_record

PLACE = Place("g", "work", 2)
DEAD = DeadRecords(7, 7, 3, "rejected")
LARGE = 1 << 20


def record(**fields: Any) -> Record:
    return Record(**{"offset": 7, "timestamp_ms": 1, "key": b"k", "value": b"v", **fields})


def test_letter_is_the_record_with_its_origin() -> None:
    own = (("mine", b"1"), ("__dlq.errors.message", b"of an earlier failure"))
    made = letter(PLACE, DEAD, Original(record(headers=own)), "no such address")
    assert (made.key, made.value) == (b"k", b"v")
    assert made.headers == (
        ("mine", b"1"),
        ("__dlq.errors.topic", b"work"),
        ("__dlq.errors.partition", b"2"),
        ("__dlq.errors.offset", b"7"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"3"),
        ("__dlq.errors.message", b"no such address"),
    )


def test_letter_of_a_record_that_cannot_be_read_has_the_problem_in_its_reason() -> None:
    [original] = unread([7], "a bad sector")
    made = letter(PLACE, DEAD, original, "rejected")
    assert dict(made.headers)["__dlq.errors.message"] == b"rejected (not copied: a bad sector)"
    assert (made.key, made.value) == (None, None)


@pytest.mark.parametrize(
    ("place", "offset"),
    [
        (PLACE, 7),
        (Place("h", "work", 2), None),
        (Place("g", "other", 2), None),
        (Place("g", "work", 0), None),
    ],
)
def test_offset_of_a_letter_is_found_for_its_own_group_and_partition(
    place: Place, offset: int | None
) -> None:
    assert offset_in(letter(PLACE, DEAD, Original(record()), "rejected"), place) == offset


def test_record_that_is_no_letter_has_no_offset() -> None:
    assert offset_in(record(), PLACE) is None
    made = letter(PLACE, DEAD, Original(record()), "rejected")
    forged = tuple((name, b"-1" if name == "__dlq.errors.offset" else value) for name, value in made.headers)
    assert offset_in(record(headers=forged), PLACE) is None


def test_letters_are_written_together_up_to_the_bytes_and_numbered() -> None:
    letters = [record(offset=offset, value=bytes(100)) for offset in range(70, 80)]
    one = len(encode_record(letters[0], timestamp_delta_ms=0, offset_delta=0))
    fitting = fit(letters, now_ms=5, letter_bytes_max=LARGE, bytes_max=3 * one)
    assert [(made.offset, made.timestamp_ms) for made in fitting] == [(0, 5), (1, 5), (2, 5)]
    assert len(fit(letters, now_ms=5, letter_bytes_max=LARGE, bytes_max=1)) == 1, "at least the first"


def test_letter_that_is_too_large_keeps_its_error_headers() -> None:
    large = letter(PLACE, DEAD, Original(record(value=bytes(5_000), headers=(("mine", b"1"),))), "rejected")
    [shrunk] = fit([large], now_ms=5, letter_bytes_max=1_000, bytes_max=LARGE)
    assert (shrunk.key, shrunk.value, offset_in(shrunk, PLACE)) == (b"k", None, 7)
    assert "mine" not in dict(shrunk.headers)
    assert b"bytes are too many for this topic" in (dict(shrunk.headers)["__dlq.errors.message"] or b"")
    long_key = letter(PLACE, DEAD, Original(record(key=bytes(5_000))), "rejected")
    [shrunk] = fit([long_key], now_ms=5, letter_bytes_max=1_000, bytes_max=LARGE)
    assert (shrunk.key, offset_in(shrunk, PLACE)) == (None, 7)
