"""The error of a coordinator that rejects a request."""

from __future__ import annotations

from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode


class RequestRefused(HeadraceError):
    """The client gets the code and, if the response has a field for it, the message."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or f"refused with {code.name}")
        self.code = code
