"""What is wrong with a receipt. Each receipt of a request has an answer of its own."""

from __future__ import annotations

from headrace.gateway.errors import GatewayError


class WrongReceipt(GatewayError):
    """It is no receipt, or one of another queue."""

    code = 40003


class ForeignReceipt(GatewayError):
    """It was issued by another gateway, or before this one was restarted."""

    status = 409
    code = 40901


class AcknowledgedOtherwise(GatewayError):
    status = 409
    code = 40902


class LockEnded(GatewayError):
    """The message is delivered again, or was."""

    status = code = 410


class NotAcknowledged(GatewayError):
    """The broker did not answer, or the reason was not stored."""

    status = 503
    code = 50301
    may_succeed_later = True


class SomeNotAcknowledged(GatewayError):
    """Of a request with several receipts."""

    status = code = 409
