"""Request and response headers: what surrounds a message on a connection.

A frame is a four-byte size and that many bytes; the connection cuts frames, this module reads what is in
them.
"""

from __future__ import annotations

import struct

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.primitives import MalformedMessage, read_uvarint, too_many, truncated
from headrace.protocol.types import Buffer

SIZE_BYTES = 4
# Tags of a request header; Kafka has none yet. Each costs time to skip.
HEADER_TAGS_MAX = 1_000

_HEAD = struct.Struct(">hhih")
_SIZE_AND_CORRELATION = struct.Struct(">ii")


class RequestHeader(Struct, frozen=True):
    """The fields that every request header has."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_head(frame: Buffer) -> tuple[RequestHeader, int]:
    """The fields that every request header has, and the position after them.

    The tags of a flexible header come next; whether it has any depends on the API and its version.
    """
    try:
        api_key, api_version, correlation_id, size = _HEAD.unpack_from(frame, 0)
    except struct.error as error:
        raise truncated() from error
    position = _HEAD.size
    client_id = None
    if size >= 0:
        end = position + size
        if end > len(frame):
            raise truncated()
        try:
            client_id = str(frame[position:end], "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedMessage("the client id is not UTF-8") from error
        position = end
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def skip_header_tags(frame: Buffer, position: int) -> int:
    """The position after the tags of a request header."""
    try:
        count, position = read_uvarint(frame, position)
        if count > HEADER_TAGS_MAX:
            raise too_many(count)
        for _ in range(count):
            _, position = read_uvarint(frame, position)
            size, position = read_uvarint(frame, position)
            position += size
    except IndexError as error:
        raise truncated() from error
    if position > len(frame):
        raise truncated()
    return position


def write_request_head(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, *, flexible: bool
) -> bytes:
    """The header of a request, without the frame's size."""
    name = b"" if client_id is None else client_id.encode()
    head = _HEAD.pack(api_key, api_version, correlation_id, -1 if client_id is None else len(name)) + name
    return head + b"\0" if flexible else head


def response_prefix(api_key: int, correlation_id: int, *, flexible: bool, body_bytes: int) -> bytes:
    """Frame size and response header.

    ApiVersions never has tags there: its reader does not know the version yet.
    """
    if flexible and api_key != ApiKey.API_VERSIONS:
        return _SIZE_AND_CORRELATION.pack(5 + body_bytes, correlation_id) + b"\0"
    return _SIZE_AND_CORRELATION.pack(4 + body_bytes, correlation_id)
