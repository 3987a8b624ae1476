from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.edges.line_reader import LineReader


def read(reader: LineReader, *pieces: bytes) -> list[bytes]:
    return [line for piece in pieces for line in reader.feed(piece)] + reader.finish()


def test_lines_have_no_ends_and_the_last_one_needs_none() -> None:
    assert read(LineReader(10), b"a\nb\r\n\nlast") == [b"a", b"b", b"", b"last"]


def test_line_of_exactly_the_bound_is_kept_and_a_longer_one_skipped() -> None:
    reader = LineReader(3)
    assert read(reader, b"abc\nabcd\nx\r\nabc\r\n") == [b"abc", b"x", b"abc"]
    assert reader.too_long == 1


def test_long_line_in_many_pieces_needs_no_memory_and_counts_once() -> None:
    reader = LineReader(3)
    for _ in range(1000):
        assert reader.feed(b"x" * 100) == []
        assert reader._rest == b""
    assert reader.feed(b"x\nnext\nok\n") == [b"ok"]
    assert reader.too_long == 2


@given(st.lists(st.binary(max_size=8).map(lambda line: line.replace(b"\n", b"").rstrip(b"\r"))), st.data())
def test_pieces_give_the_same_lines_as_the_whole(lines: list[bytes], data: st.DataObject) -> None:
    text = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    reader = LineReader(4)
    assert read(reader, *pieces) == [line for line in lines if len(line) <= 4]
    assert reader.too_long == sum(len(line) > 4 for line in lines)
