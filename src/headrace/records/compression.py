"""The four codecs of Kafka's batches, in the framings that its clients read and write.

gzip, lz4 frames and zstd are standard. Snappy has two framings in use: Java's clients write
xerial blocks, librdkafka writes one raw block; both are read, and xerial is written: every client reads it.
Decompression is always bounded: a few kilobytes can claim to be gigabytes.
"""

from __future__ import annotations

import mmap
import struct
from enum import IntEnum
from types import ModuleType

import cramjam

from headrace.records.errors import DecompressionBomb, InvalidBatch, UnsupportedCodec

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
# Version and lowest compatible version, both 1: what snappy-java writes.
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
# snappy-java's own block size; a reader allocates one block at a time.
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = struct.Struct(">i")

# Up to here a plain buffer is cheaper than pages of the kernel.
_SMALL_BUFFER_BYTES = 64 * 1024
# Kafka's own default level for zstd; cramjam's default of 11 is many times slower.
_ZSTD_LEVEL_DEFAULT = 3
_GZIP_LEVEL_DEFAULT = 6


class Codec(IntEnum):
    """How a batch's records are compressed: the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_BOUNDED_DECODERS: dict[Codec, ModuleType] = {
    Codec.GZIP: cramjam.gzip,
    Codec.LZ4: cramjam.lz4,
    Codec.ZSTD: cramjam.zstd,
}


def codec_of(attributes: int) -> Codec:
    """The codec named by a batch's attributes."""
    try:
        return Codec(attributes & 0x07)
    except ValueError:
        raise UnsupportedCodec(
            f"compression {attributes & 0x07} does not exist",
            hint="the batch is damaged or not a Kafka batch",
        ) from None


def compress(codec: Codec, data: bytes, level: int | None = None) -> bytes:
    """`data` in the framing that Kafka's clients expect; `level` means what it means to the codec."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level=_GZIP_LEVEL_DEFAULT if level is None else level))
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            # Java's reader rejects linked blocks, which are cramjam's default.
            frame = cramjam.lz4.Compressor(level=level, block_linked=False)
            frame.compress(data)
            return bytes(frame.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL_DEFAULT if level is None else level))


def decompress(codec: Codec, data: bytes, *, bytes_max: int) -> bytes:
    """The original of `data`; raises DecompressionBomb rather than write more than `bytes_max` bytes."""
    if codec is Codec.NONE:
        if len(data) > bytes_max:
            raise _bomb(bytes_max)
        return data
    if codec is Codec.SNAPPY:
        return _decompress_snappy(data, bytes_max=bytes_max)
    return _decompress_into_bound(_BOUNDED_DECODERS[codec], data, bytes_max=bytes_max)


def _decompress_into_bound(decoder: ModuleType, data: bytes, *, bytes_max: int) -> bytes:
    """Decode into a buffer that cannot grow: first a likely size, then all that is allowed.

    The large buffer is an anonymous map, so only the pages that are really written cost memory.
    """
    likely_bytes = max(8 * len(data), _SMALL_BUFFER_BYTES)
    try:
        if likely_bytes <= bytes_max:
            small = bytearray(likely_bytes)
            return bytes(memoryview(small)[: decoder.decompress_into(data, small)])
    except cramjam.DecompressionError as error:
        if not _is_out_of_room(error):
            raise _damaged(error) from error
    # One byte more than allowed, so that no map is ever empty and a result of exactly bytes_max still fits.
    with mmap.mmap(-1, bytes_max + 1) as large:
        try:
            written_bytes: int = decoder.decompress_into(data, large)
        except cramjam.DecompressionError as error:
            if _is_out_of_room(error):
                raise _bomb(bytes_max) from None
            raise _damaged(error) from error
        if written_bytes > bytes_max:
            raise _bomb(bytes_max)
        return large[:written_bytes]


def _is_out_of_room(error: cramjam.DecompressionError) -> bool:
    # cramjam has no error type of its own for this; the tests notice if the wording changes.
    return "write whole buffer" in str(error)


def _compress_xerial(data: bytes) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_BLOCK_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: bytes, *, bytes_max: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _decompress_raw_snappy(data, bytes_max=bytes_max)
    if len(data) < len(_XERIAL_HEADER):
        raise InvalidBatch("the header of the snappy blocks is cut off", hint="the batch is damaged")
    parts: list[bytes] = []
    room_bytes = bytes_max
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if position + 4 > len(data):
            raise InvalidBatch("a snappy block length is cut off", hint="the batch is damaged")
        (block_bytes,) = _BLOCK_LENGTH.unpack_from(data, position)
        end = position + 4 + block_bytes
        if block_bytes <= 0 or end > len(data):
            raise InvalidBatch(f"a snappy block claims {block_bytes} bytes", hint="the batch is damaged")
        parts.append(_decompress_raw_snappy(data[position + 4 : end], bytes_max=room_bytes))
        room_bytes -= len(parts[-1])
        position = end
    return b"".join(parts)


def _decompress_raw_snappy(block: bytes, *, bytes_max: int) -> bytes:
    try:
        # The length is at the start of the block, and the decoder does not exceed it.
        if cramjam.snappy.decompress_raw_len(block) > bytes_max:
            raise _bomb(bytes_max)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _damaged(error) from error


def _bomb(bytes_max: int) -> DecompressionBomb:
    return DecompressionBomb(
        f"the records of a batch decompress to more than {bytes_max} bytes",
        hint="raise the bound on decompressed bytes if the data is meant to be that large",
    )


def _damaged(error: Exception) -> InvalidBatch:
    return InvalidBatch(f"the compressed records cannot be read: {error}", hint="the batch is damaged")
