"""The keys of the records of a batch, as hashes: all that is needed to tell which records belong together.

This runs for every record that an ordered queue delivers, so it reads the few bytes up to the key and nothing else.
"""

from __future__ import annotations

from headrace.records.errors import InvalidBatch
from headrace.records.varint import read_varint

KeyHash = int | None
"""None for a record without a key. Hashes differ from process to process, so they are never stored."""


def key_hashes(section: bytes, record_count: int) -> list[KeyHash]:
    """The hash of every record's key in a decompressed section; raises InvalidBatch if they can't be read."""
    hashes: list[KeyHash] = []
    add = hashes.append
    position = 0
    try:
        for _ in range(record_count):
            byte = section[position]
            following = section[position + 1]
            # Lengths of up to 8,191 bytes are read here, others by the general function.
            if byte < 0x80:
                length, position = byte >> 1, position + 1
            elif following < 0x80:
                length, position = (byte & 0x7F | following << 7) >> 1, position + 2
            else:
                length, position = read_varint(section, position)
            end = position + length
            position += 1  # attributes
            while section[position] >= 0x80:  # timestamp
                position += 1
            position += 1
            while section[position] >= 0x80:  # offset
                position += 1
            byte = section[position + 1]
            if byte == 1:
                add(None)
            elif byte < 0x80 and not byte & 1:
                start = position + 2
                add(hash(section[start : start + (byte >> 1)]))
            else:
                size_bytes, start = read_varint(section, position + 1)
                add(hash(section[start : start + size_bytes]) if size_bytes >= 0 else None)
            if end <= position:
                raise InvalidBatch("a record ends before its key", hint="the batch is damaged")
            position = end
    except IndexError:
        raise InvalidBatch("the last record of a batch is cut off", hint="the batch is damaged") from None
    return hashes
