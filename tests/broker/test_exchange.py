"""The bytes of an exchange: a frame that a client reads, in as few parts as is worth a copy."""

from __future__ import annotations

import pytest

from headrace.broker.dispatch import HANDLERS
from headrace.broker.exchange import JOINED_BYTES_MAX, PARTS_MAX, Exchange
from headrace.broker.handlers import fetch
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.framing import RequestHeader
from headrace.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

VERSION = 12
CORRELATION_ID = 77


def exchange() -> Exchange:
    handler = HANDLERS[ApiKey.FETCH]
    assert handler.function.__module__ == fetch.__name__
    codecs = handler.codecs(VERSION)
    assert codecs is not None
    return Exchange(handler, codecs[1], RequestHeader(ApiKey.FETCH, VERSION, CORRELATION_ID, None), 10)


def response(*records: bytes) -> FetchResponse:
    partitions = tuple(PartitionData(partition_index=index, records=one) for index, one in enumerate(records))
    return FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=partitions),))


@pytest.mark.parametrize("count", [1, PARTS_MAX], ids=["few parts", "many parts"])
def test_parts_are_the_frame_of_the_response(count: int) -> None:
    wanted, encoded = response(*(b"x" for _ in range(count))), exchange()
    size_bytes = encoded.encode(wanted)
    frame = b"".join(encoded.parts)
    assert len(frame) == size_bytes
    assert int.from_bytes(frame[:4]) == size_bytes - 4
    assert int.from_bytes(frame[4:8]) == CORRELATION_ID
    assert encoded.codec.decode(frame, 9) == wanted


def test_many_parts_become_few_and_large_ones_are_not_copied() -> None:
    large = bytes(JOINED_BYTES_MAX + 1)
    encoded = exchange()
    encoded.encode(response(*(b"x" for _ in range(PARTS_MAX)), large, b"y"))
    assert len(encoded.parts) == 4, "the prefix, small ones, the large one, small ones"
    assert any(part is large for part in encoded.parts)
