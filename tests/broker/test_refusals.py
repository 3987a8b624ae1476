"""A rejected request: the code for the client, and a message for the person."""

from __future__ import annotations

from headrace.broker.refusals import RequestRefused
from headrace.protocol.error_codes import ErrorCode


def test_message_names_the_code_unless_it_explains_itself() -> None:
    refused = RequestRefused(ErrorCode.NON_EMPTY_GROUP)
    assert (refused.code, "NON_EMPTY_GROUP" in str(refused)) == (ErrorCode.NON_EMPTY_GROUP, True)
    assert str(RequestRefused(ErrorCode.NON_EMPTY_GROUP, "the group has members")) == "the group has members"
