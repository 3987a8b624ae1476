"""Positions that are valid only in front of the bytes that they were behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.edges.files.marks import BEGINNING, MARK_BYTES, Identity, fits, head_of, mark_at


@pytest.fixture
def file(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    path = tmp_path / "a.log"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(1000)))
    descriptor = os.open(path, os.O_RDONLY)
    yield path, descriptor
    os.close(descriptor)


def test_mark_fits_while_the_file_grows_and_not_if_it_was_written_again(file: tuple[Path, int]) -> None:
    path, descriptor = file
    mark = mark_at(descriptor, 5000)
    assert mark is not None
    with path.open("ab") as more:
        more.write(b"more\n")
    assert fits(descriptor, mark)

    content = path.read_bytes()
    path.write_bytes(b"other" + content[5:])
    assert not fits(descriptor, mark)
    path.write_bytes(content[:4990] + b"X" + content[4991:])
    assert not fits(descriptor, mark)
    path.write_bytes(content[:4000])
    assert not fits(descriptor, mark)
    assert mark_at(descriptor, 5000) is None


def test_beginning_fits_every_file(file: tuple[Path, int]) -> None:
    path, descriptor = file
    path.write_bytes(b"")

    assert fits(descriptor, BEGINNING)
    assert head_of(descriptor) is None


def test_inode_and_device_identify_a_file_whatever_its_name(file: tuple[Path, int]) -> None:
    path, descriptor = file
    renamed = path.rename(path.with_suffix(".1"))

    assert Identity.of(renamed.stat()) == Identity.of(os.fstat(descriptor))


@given(st.integers(0, 4000), st.data())
def test_changed_byte_in_front_of_a_position_is_seen(offset: int, data: st.DataObject) -> None:
    content = bytes(range(256)) * 16
    near = [*range(max(0, offset - MARK_BYTES), offset)]
    changed = data.draw(st.sampled_from(near)) if near else None
    descriptor = os.memfd_create("file") if hasattr(os, "memfd_create") else pytest.skip("Linux only")
    try:
        os.pwrite(descriptor, content, 0)
        mark = mark_at(descriptor, offset)
        assert mark is not None
        if changed is not None:
            os.pwrite(descriptor, bytes([content[changed] ^ 1]), changed)
        assert fits(descriptor, mark) == (changed is None)
    finally:
        os.close(descriptor)
