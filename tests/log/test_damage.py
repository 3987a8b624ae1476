"""Damage as recovery and repair report it."""

from __future__ import annotations

from headrace.log.damage import missing_offsets


def test_missing_offsets_have_no_bytes_and_name_their_range() -> None:
    damage = missing_offsets("/data/t-0/00000000000000000000.log", 300, 7, 10)
    assert (damage.position, damage.end_position) == (300, 300)
    assert (damage.first_offset, damage.next_offset) == (7, 10)
    assert "7 to 9" in damage.reason


def test_error_of_a_reader_has_file_and_position() -> None:
    error = missing_offsets("/data/t-0/00000000000000000000.log", 300, 7, 10).as_error()
    assert (error.path, error.position) == ("/data/t-0/00000000000000000000.log", 300)
    assert "byte 300" in str(error)
