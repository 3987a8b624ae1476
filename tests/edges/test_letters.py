from __future__ import annotations

from headrace.edges.letters import garbage_letter


def test_letter_has_the_reason_and_long_garbage_is_truncated() -> None:
    letter = garbage_letter("metrics", "statsd", b"0123456789", "no value", bytes_max=4)
    assert (letter.topic, letter.value) == ("dlq.metrics", b"0123")
    assert dict(letter.headers) == {
        "__dlq.errors.group": b"statsd",
        "__dlq.errors.message": b"no value",
        "__dlq.errors.truncated.from.bytes": b"10",
    }
    assert len(garbage_letter("metrics", "statsd", b"0123", "no value", bytes_max=4).headers) == 2
