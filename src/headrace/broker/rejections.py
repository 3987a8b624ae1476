"""The error of a request that the broker rejects."""

from __future__ import annotations

from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode


class RequestRejected(HeadraceError):
    """The client gets the code and, if the response has a field for it, the message."""

    def __init__(self, code: ErrorCode, message: str = "", *, hint: str = "") -> None:
        super().__init__(message or f"rejected with {code.name}", hint=hint)
        self.code = code
