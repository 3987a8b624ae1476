"""One fuzzing input: bytes whose first two choose a decoder, and the rest of which that decoder gets.

Shared by the two fuzzers: `test_fuzz_decoder` (hypothesis, in every run of the tests) and `fuzz_decoder` (atheris,
which is guided by coverage and started by hand).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from headrace.protocol.codec import Codec, codec
from headrace.protocol.framing import read_request_head, skip_header_tags, write_request_head
from headrace.protocol.primitives import MalformedMessage
from headrace.protocol.stored_format import StoredFormat, StoredTopic
from tests.protocol.samples import (
    STORED_TOPICS,
    every_message,
    every_stored_format,
    full_sample,
    random_samples,
    stored_versions_of,
)

CHOICE_BYTES = 2
SEEDS_PER_MESSAGE = 2


def check(data: bytes) -> None:
    """Let the chosen decoder decode: anything but a good message or `MalformedMessage` is a failure."""
    choice, body = int.from_bytes(data[:CHOICE_BYTES], "big"), data[CHOICE_BYTES:]
    with contextlib.suppress(MalformedMessage):
        DECODERS[choice % len(DECODERS)](body)


def seeds() -> Iterator[bytes]:
    """Inputs that are good, for every decoder."""
    for choice, (cls, version) in enumerate(every_message()):
        for value in (full_sample(cls, version), *random_samples(cls, version, SEEDS_PER_MESSAGE)):
            yield choice.to_bytes(CHOICE_BYTES, "big") + codec(cls, version).encode(value)
    others: list[list[bytes]] = [
        [write_request_head(1, 12, 3, "client", flexible=True)],
        *([topic.encode_key(full_sample(one.key, 0)) for one in topic.formats] for topic in STORED_TOPICS),
        *(
            [topic.encode_value(full_sample(one.value, v), v) for v in stored_versions_of(one)]
            for topic, one in every_stored_format()
        ),
    ]
    for choice, bodies in enumerate(others, len(DECODERS) - len(others)):
        for body in bodies:
            yield choice.to_bytes(CHOICE_BYTES, "big") + body


def _message(made: Codec[Any]) -> Callable[[bytes], None]:
    def decode(body: bytes) -> None:
        value = made.decode(body)
        assert made.decode(made.encode(value)) == value

    return decode


def _request_head(body: bytes) -> None:
    _, position = read_request_head(body)
    assert skip_header_tags(body, position) <= len(body)


def _stored_key(topic: StoredTopic[Any]) -> Callable[[bytes], None]:
    def decode(body: bytes) -> None:
        key = topic.decode_key(body)
        assert key is None or topic.decode_key(topic.encode_key(key)) == key

    return decode


def _stored_value(topic: StoredTopic[Any], stored_format: StoredFormat) -> Callable[[bytes], None]:
    def decode(body: bytes) -> None:
        value = topic.decode_value(stored_format.value, body)
        assert topic.decode_value(stored_format.value, topic.encode_value(value, body[1])) == value

    return decode


DECODERS: tuple[Callable[[bytes], None], ...] = (
    *(_message(codec(cls, version)) for cls, version in every_message()),
    _request_head,
    *(_stored_key(topic) for topic in STORED_TOPICS),
    *(_stored_value(topic, stored_format) for topic, stored_format in every_stored_format()),
)
