"""What a group answers with when it can't do what it was asked."""

from __future__ import annotations

from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode


class GroupRefused(HeadraceError):
    """A request that its group can't grant; the client is told the code."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(f"refused with {code.name}")
        self.code = code
