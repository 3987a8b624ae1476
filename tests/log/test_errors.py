"""The messages and the hints of the errors of a log."""

from __future__ import annotations

from headrace.errors import HeadraceError
from headrace.log.errors import CorruptArchive, CorruptSegment, LogError, OffsetOutOfRange, RecordsWithoutKey


def test_errors_that_reach_people_have_object_problem_and_remedy() -> None:
    for error, words, remedy in (
        (
            CorruptSegment(path="/d/0.log", position=42, reason="torn"),
            ("/d/0.log", "byte 42", "torn"),
            "repair",
        ),
        (
            CorruptArchive(name="a/0.log", address="s3://b", reason="cut"),
            ("a/0.log", "s3://b", "cut"),
            "restore",
        ),
        (OffsetOutOfRange(offset=9, start_offset=1, end_offset=5), ("9", "1", "5"), "start or the end"),
        (RecordsWithoutKey(count=3, indexes=(0, 1, 2)), ("3", "key"), "key"),
    ):
        assert isinstance(error, LogError)
        assert isinstance(error, HeadraceError)
        assert all(word in error.message for word in words), error.message
        assert error.hint is not None
        assert remedy in error.hint
