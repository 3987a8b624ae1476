"""The bytes of texts, and the rotation of bits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.operators.hashing import bytes_of, rotated


def test_bytes_of_a_slice_begin_with_its_first_text() -> None:
    ends, content = bytes_of(pa.array(["before", "é", "", "abc", "behind"]).slice(1, 3))
    assert ends.tolist() == [0, 2, 2, 5]
    assert content[:5].tobytes() == "éabc".encode()
    assert len(content) % 8 == 0
    assert not content[5:].any()
    assert len(content) >= 5 + 16


def test_no_texts_have_no_bytes() -> None:
    ends, content = bytes_of(pa.array([], pa.string()))
    assert ends.tolist() == [0]
    assert not content.any()


def test_bits_that_leave_at_the_left_come_back_at_the_right() -> None:
    bits = np.array([0x8000000000000001], dtype=np.uint64)
    assert rotated(bits, 4).tolist() == [0x18]
