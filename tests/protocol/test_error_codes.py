"""The numbers of Kafka's error codes."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KioErrorCode

from headrace.protocol.error_codes import ErrorCode


def test_error_codes_have_the_numbers_of_the_second_implementation() -> None:
    assert {code.name.lower(): code.value for code in ErrorCode}.items() <= {
        code.name: code.value for code in KioErrorCode
    }.items()
