"""The error code of a failure: that of its nearest known class."""

from __future__ import annotations

import asyncio

import pytest

from headrace.broker.error_codes import Outcome, error_code, outcome_of
from headrace.broker.rejections import RequestRejected
from headrace.log import errors as log
from headrace.protocol.error_codes import ErrorCode
from headrace.records import errors as records


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (records.DecompressionBomb("too much"), ErrorCode.MESSAGE_TOO_LARGE),
        (records.InvalidBatch("checksum"), ErrorCode.CORRUPT_MESSAGE),
        (log.RecordsWithoutKey(count=1, indexes=(0,)), ErrorCode.INVALID_RECORD),
        (log.OffsetOutOfRange(offset=5, start_offset=0, end_offset=3), ErrorCode.OFFSET_OUT_OF_RANGE),
        (log.OutOfOrderSequence("gap"), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (FileNotFoundError(), ErrorCode.KAFKA_STORAGE_ERROR),
        (RuntimeError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_error_becomes_the_code_that_kafka_gives_it(error: Exception, code: ErrorCode) -> None:
    assert error_code(error) is code


def test_every_error_of_a_log_has_a_code() -> None:
    """An archived object that is missing is reported as CorruptArchive."""
    known = {
        kind.__name__
        for kind in log.LogError.__subclasses__()
        if error_code(kind.__new__(kind)) is not ErrorCode.UNKNOWN_SERVER_ERROR
    }
    assert {
        kind.__name__ for kind in log.LogError.__subclasses__() if kind.__module__ == log.__name__
    } - known == {"ObjectMissing"}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, Outcome()),
        (
            RequestRejected(ErrorCode.POLICY_VIOLATION, "too many", hint="delete some"),
            Outcome(code=ErrorCode.POLICY_VIOLATION, message="too many (delete some)"),
        ),
        (OSError("disk"), Outcome(code=ErrorCode.KAFKA_STORAGE_ERROR, message="disk")),
    ],
)
def test_outcome_has_the_code_and_message_of_a_failure(error: Exception | None, outcome: Outcome) -> None:
    async def work() -> None:
        if error is not None:
            raise error

    assert asyncio.run(outcome_of(work())) == outcome


def test_bug_is_not_an_outcome() -> None:
    async def work() -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        asyncio.run(outcome_of(work()))
