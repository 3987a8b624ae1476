"""Lines of a file, whatever the pieces in which it is read."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from headrace.edges.files.lines import Line, LineSplitter


def split(data: bytes, cuts: list[int], *, line_bytes_max: int = 100, is_cut: bool = True) -> list[Line]:
    """The lines of data that arrives in pieces, the unfinished one included."""
    splitter = LineSplitter(0, line_bytes_max=line_bytes_max, is_cut=is_cut)
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    found: list[Line] = []
    for begin, end in itertools.pairwise(bounds):
        found += splitter.feed(data[begin:end])
    return found + splitter.finish()


def plain(data: bytes, bound: int, *, is_cut: bool) -> list[Line]:
    """The same, in the simplest way."""
    found, offset = [], 0
    pieces = data.split(b"\n")
    for number, piece in enumerate(pieces):
        line = piece.removesuffix(b"\r")
        is_last = number == len(pieces) - 1
        if not (is_last and not piece) and (len(line) <= bound or is_cut):
            found.append((offset, line[:bound]))
        offset += len(piece) + 1
    return found


CUTS = st.lists(st.integers(0, 60))
DATA = st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"bcd", b"\xff\xfe", b"0123456789"])).map(b"".join)


@given(DATA, CUTS, st.booleans())
def test_lines_and_offsets_are_those_of_the_whole_file(data: bytes, cuts: list[int], is_cut: bool) -> None:
    assert split(data, cuts, is_cut=is_cut) == plain(data, 100, is_cut=is_cut)


@given(DATA, CUTS, st.booleans())
def test_lines_over_the_bound_are_cut_or_skipped_wherever_pieces_end(
    data: bytes, cuts: list[int], is_cut: bool
) -> None:
    assert split(data, cuts, line_bytes_max=5, is_cut=is_cut) == plain(data, 5, is_cut=is_cut)


def test_line_without_end_waits_and_its_offset_is_where_reading_continues() -> None:
    splitter = LineSplitter(1000, line_bytes_max=10, is_cut=True)

    assert splitter.feed(b"one\ntw") == [(1000, b"one")]
    assert (splitter.start, splitter.has_rest) == (1004, True)
    assert splitter.feed(b"o\n") == [(1004, b"two")]
    assert (splitter.start, splitter.has_rest) == (1008, False)


def test_endless_line_takes_no_memory_and_is_counted_once() -> None:
    splitter = LineSplitter(0, line_bytes_max=10, is_cut=True)

    found = [line for _ in range(100) for line in splitter.feed(b"x" * 1000)]
    found += splitter.feed(b"\nnext\n")

    assert found == [(0, b"x" * 10), (100_001, b"next")]
    assert splitter.too_long == 1
