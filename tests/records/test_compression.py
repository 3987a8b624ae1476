from __future__ import annotations

import contextlib
import os
import random
import resource
import struct

import cramjam
import kafka.codec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.records.compression import Codec, codec_of, compress, decompress
from headrace.records.errors import DecompressionBomb, InvalidBatch, UnsupportedCodec

COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
BOUND_BYTES = 1 << 20

OTHER_ENCODERS = {
    Codec.GZIP: kafka.codec.gzip_encode,
    Codec.SNAPPY: kafka.codec.snappy_encode,
    Codec.LZ4: kafka.codec.lz4_encode,
    Codec.ZSTD: kafka.codec.zstd_encode,
}
OTHER_DECODERS = {
    Codec.GZIP: kafka.codec.gzip_decode,
    Codec.SNAPPY: kafka.codec.snappy_decode,
    Codec.LZ4: kafka.codec.lz4_decode,
    Codec.ZSTD: kafka.codec.zstd_decode,
}
payloads = st.one_of(
    st.binary(max_size=2000),
    st.builds(lambda unit, times: unit * times, st.binary(min_size=1, max_size=50), st.integers(1, 4000)),
)


@pytest.mark.parametrize("codec", list(Codec))
@given(data=payloads)
def test_decompress_reverses_compress(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), bytes_max=BOUND_BYTES) == data


@pytest.mark.parametrize("codec", COMPRESSED)
@given(data=payloads.filter(bool))  # it cannot read what a batch never has: no records, compressed
def test_another_client_decompresses_our_batches(codec: Codec, data: bytes) -> None:
    assert OTHER_DECODERS[codec](compress(codec, data)) == data


@pytest.mark.parametrize("codec", COMPRESSED)
@given(data=payloads)
def test_we_decompress_batches_of_another_client(codec: Codec, data: bytes) -> None:
    assert decompress(codec, bytes(OTHER_ENCODERS[codec](data)), bytes_max=BOUND_BYTES) == data


@given(data=payloads)
def test_raw_snappy_as_librdkafka_writes_it_is_read(data: bytes) -> None:
    raw = bytes(cramjam.snappy.compress_raw(data))
    assert decompress(Codec.SNAPPY, raw, bytes_max=BOUND_BYTES) == data


def test_snappy_is_written_in_the_blocks_of_snappy_java() -> None:
    framed = compress(Codec.SNAPPY, bytes(100_000))
    assert framed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    blocks = 0
    position = 16
    while position < len(framed):
        position += 4 + struct.unpack_from(">i", framed, position)[0]
        blocks += 1
    assert (position, blocks) == (len(framed), 4)


def test_lz4_blocks_are_independent_because_java_rejects_others() -> None:
    frame = compress(Codec.LZ4, os.urandom(100_000))
    assert frame[:4] == bytes.fromhex("04224d18")
    version, is_independent, is_reserved = frame[4] >> 6, frame[4] >> 5 & 1, frame[4] >> 1 & 1
    assert (version, is_independent, is_reserved) == (1, 1, 0)


@pytest.mark.parametrize("codec", list(Codec))
def test_result_of_exactly_the_bound_is_allowed_and_one_byte_more_is_not(codec: Codec) -> None:
    for size_bytes in (1, 1000, 200_000):
        data = compress(codec, bytes(size_bytes))
        assert decompress(codec, data, bytes_max=size_bytes) == bytes(size_bytes)
        with pytest.raises(DecompressionBomb):
            decompress(codec, data, bytes_max=size_bytes - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_bomb_is_rejected_without_using_its_memory(codec: Codec) -> None:
    bomb = compress(codec, bytes(400 << 20)) if codec is not Codec.SNAPPY else _snappy_bomb()
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DecompressionBomb):
        decompress(codec, bomb, bytes_max=32 << 20)
    # The largest resident size never falls, so it bounds the memory of this one call.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 128 << 10


def _snappy_bomb() -> bytes:
    """One raw block that claims 4 GiB - 1."""
    return b"\xff\xff\xff\xff\x0f" + bytes(cramjam.snappy.compress_raw(bytes(1 << 20)))[3:]


def test_bomb_of_many_snappy_blocks_is_rejected() -> None:
    data = compress(Codec.SNAPPY, bytes(1 << 20))
    with pytest.raises(DecompressionBomb):
        decompress(Codec.SNAPPY, data, bytes_max=1 << 19)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_data_cut_at_any_byte_is_an_error_and_never_a_shorter_result(codec: Codec) -> None:
    data = bytes(range(256)) * 3
    compressed = compress(codec, data)
    for end in range(len(compressed)):
        try:
            result = decompress(codec, compressed[:end], bytes_max=BOUND_BYTES)
        except InvalidBatch:
            continue
        # A file of xerial blocks has no end mark: its header alone is a valid file of no blocks.
        assert (codec, end, result) == (Codec.SNAPPY, 16, b"")


@pytest.mark.parametrize("codec", COMPRESSED)
@given(data=st.binary(max_size=300))
def test_random_bytes_raise_an_error_or_decode_to_a_bounded_result(codec: Codec, data: bytes) -> None:
    with contextlib.suppress(InvalidBatch):
        assert len(decompress(codec, data, bytes_max=10_000)) <= 10_000


def test_snappy_block_with_a_negative_length_is_rejected() -> None:
    with pytest.raises(InvalidBatch):
        decompress(Codec.SNAPPY, compress(Codec.SNAPPY, b"")[:16] + b"\xff\xff\xff\xff", bytes_max=100)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD, Codec.LZ4])
def test_level_is_passed_to_the_codec(codec: Codec) -> None:
    words = [b"the", b"headrace", b"carries", b"water", b"from", b"river", b"to", b"wheel", b"of", b"mill"]
    data = b" ".join(random.Random(1).choices(words, k=20_000))
    fast, small = compress(codec, data, 1), compress(codec, data, 9)
    assert len(small) < len(fast)
    assert decompress(codec, small, bytes_max=BOUND_BYTES) == data


@pytest.mark.parametrize("number", [5, 6, 7])
def test_codec_that_does_not_exist_is_named(number: int) -> None:
    with pytest.raises(UnsupportedCodec, match=str(number)):
        codec_of(number)
