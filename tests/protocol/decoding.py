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
from headrace.protocol.stored import (
    VALUE_VERSION_NEWEST,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from tests.protocol.samples import every_message, full_sample, random_samples

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
        [encode_key(full_sample(OffsetCommitKey, 1)), encode_key(full_sample(GroupMetadataKey, 2))],
        *(
            [encode_value(full_sample(cls, version), version) for version in range(VALUE_VERSION_NEWEST + 1)]
            for cls in (OffsetCommitValue, GroupMetadataValue)
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


def _stored_key(body: bytes) -> None:
    key = decode_key(body)
    assert key is None or decode_key(encode_key(key)) == key


def _stored_offset(body: bytes) -> None:
    value = decode_value(OffsetCommitValue, body)
    assert decode_value(OffsetCommitValue, encode_value(value, body[1])) == value


def _stored_group(body: bytes) -> None:
    value = decode_value(GroupMetadataValue, body)
    assert decode_value(GroupMetadataValue, encode_value(value, body[1])) == value


DECODERS: tuple[Callable[[bytes], None], ...] = (
    *(_message(codec(cls, version)) for cls, version in every_message()),
    _request_head,
    _stored_key,
    _stored_offset,
    _stored_group,
)
