from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as PlainRequestHeader
from kio.schema.request_header.v2.header import RequestHeader as FlexibleRequestHeader
from kio.schema.response_header.v0.header import ResponseHeader as PlainResponseHeader
from kio.schema.response_header.v1.header import ResponseHeader as FlexibleResponseHeader
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.framing import (
    HEADER_TAGS_MAX,
    SIZE_BYTES,
    read_request_head,
    response_prefix,
    skip_header_tags,
    write_request_head,
)
from headrace.protocol.primitives import MalformedMessage, uvarint

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
client_ids = st.none() | st.text(max_size=50)


@given(int16, int16, int32, client_ids, st.booleans(), st.binary(max_size=20))
def test_a_request_head_is_read_as_it_was_written(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, flexible: bool, body: bytes
) -> None:
    head = write_request_head(api_key, api_version, correlation_id, client_id, flexible=flexible)
    header, position = read_request_head(head + body)
    if flexible:
        position = skip_header_tags(head + body, position)
    assert (header.api_key, header.api_version) == (api_key, api_version)
    assert (header.correlation_id, header.client_id) == (correlation_id, client_id)
    assert (head + body)[position:] == body


@given(int16, int16, int32, client_ids, st.booleans())
def test_request_heads_equal_those_of_a_second_implementation(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, flexible: bool
) -> None:
    theirs = FlexibleRequestHeader if flexible else PlainRequestHeader
    written = io.BytesIO()
    entity_writer(theirs)(
        written,
        theirs(
            request_api_key=i16(api_key),
            request_api_version=i16(api_version),
            correlation_id=i32(correlation_id),
            client_id=client_id,
        ),
    )
    ours = write_request_head(api_key, api_version, correlation_id, client_id, flexible=flexible)
    assert ours == written.getvalue()


@pytest.mark.parametrize("flexible", [False, True])
def test_response_prefixes_equal_those_of_a_second_implementation(flexible: bool) -> None:
    theirs = FlexibleResponseHeader if flexible else PlainResponseHeader
    header = io.BytesIO()
    entity_writer(theirs)(header, theirs(correlation_id=i32(77)))
    expected = (len(header.getvalue()) + 10).to_bytes(SIZE_BYTES, "big") + header.getvalue()
    assert response_prefix(ApiKey.FETCH, 77, flexible=flexible, body_bytes=10) == expected


def test_the_response_header_of_api_versions_never_has_tags() -> None:
    plain = response_prefix(ApiKey.API_VERSIONS, 5, flexible=False, body_bytes=9)
    assert response_prefix(ApiKey.API_VERSIONS, 5, flexible=True, body_bytes=9) == plain


def test_unknown_tags_of_a_request_header_are_skipped() -> None:
    tags = b"\x02" + b"\x00\x03abc" + uvarint(500) + b"\x00"
    assert skip_header_tags(b"12" + tags + b"body", 2) == 2 + len(tags)


@pytest.mark.parametrize("flexible", [False, True])
def test_a_request_head_cut_at_any_byte_is_malformed(flexible: bool) -> None:
    head = write_request_head(1, 12, 7, "client", flexible=flexible)
    for size in range(len(head)):
        with pytest.raises(MalformedMessage):
            skip_header_tags(head[:size], read_request_head(head[:size])[1])


@given(st.binary(max_size=40))
def test_random_bytes_are_a_request_head_or_malformed(frame: bytes) -> None:
    try:
        _, position = read_request_head(frame)
        end = skip_header_tags(frame, position)
    except MalformedMessage:
        return
    assert position <= end <= len(frame)


def test_a_client_id_that_is_not_utf8_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="UTF-8"):
        read_request_head(b"\0\x01\0\x0c\0\0\0\x07\0\x02\xff\xfe")


@pytest.mark.parametrize(
    "tags",
    [
        b"\xff\xff\xff\xff\x0f",
        b"\x01\x00\xff\xff\xff\xff\x0f",
        b"\xff\xff\xff\xff\xff\x01",
        b"\x01\x00\x05abcd",
    ],
)
def test_header_tags_that_promise_more_than_there_is_are_malformed(tags: bytes) -> None:
    with pytest.raises(MalformedMessage):
        skip_header_tags(tags, 0)


@given(st.lists(st.tuples(st.integers(0, 1000), st.binary(max_size=200)), max_size=5), st.binary(max_size=5))
def test_position_after_a_tag_buffer_is_that_of_what_follows(
    tags: list[tuple[int, bytes]], after: bytes
) -> None:
    encoded = uvarint(len(tags)) + b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in tags)
    assert skip_header_tags(encoded + after, 0) == len(encoded)


def test_tag_buffer_that_is_longer_than_its_message_or_has_too_many_tags_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="ends before"):
        skip_header_tags(uvarint(1) + uvarint(0) + uvarint(2) + b"x", 0)
    with pytest.raises(MalformedMessage, match=str(HEADER_TAGS_MAX + 1)):
        skip_header_tags(uvarint(HEADER_TAGS_MAX + 1), 0)
