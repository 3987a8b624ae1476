"""A rejected request: the code for the client, and a message for the person."""

from __future__ import annotations

from headrace.broker.rejections import RequestRejected
from headrace.protocol.error_codes import ErrorCode


def test_message_names_the_code_unless_it_explains_itself() -> None:
    rejected = RequestRejected(ErrorCode.NON_EMPTY_GROUP)
    assert (rejected.code, "NON_EMPTY_GROUP" in str(rejected)) == (ErrorCode.NON_EMPTY_GROUP, True)
    assert str(RequestRejected(ErrorCode.NON_EMPTY_GROUP, "the group has members")) == "the group has members"
