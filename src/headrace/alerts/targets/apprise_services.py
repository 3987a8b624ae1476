"""Every service that apprise knows: chat, telephones, incident services."""

from __future__ import annotations

import logging
import threading
from typing import Any

import apprise

from headrace.alerts.errors import BadAlert, DeliveryFailed
from headrace.alerts.message import Message, MessageKind
from headrace.alerts.rendering import Rendered
from headrace.alerts.targets.sender import Sender
from headrace.redaction import redacted, scrubbed

_TYPES = {
    MessageKind.FIRING: apprise.NotifyType.FAILURE,
    MessageKind.ESCALATION: apprise.NotifyType.FAILURE,
    MessageKind.RESOLVED: apprise.NotifyType.SUCCESS,
    MessageKind.TEST: apprise.NotifyType.INFO,
}


class _Reasons(logging.Handler):
    """The warnings of apprise, which returns only whether it worked. Of the thread that sends."""

    def __init__(self, thread: int) -> None:
        super().__init__(logging.WARNING)
        self._thread = thread
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self.lines.append(record.getMessage())


class AppriseSender(Sender):
    def __init__(self, address: str) -> None:
        self._address = address
        self._service: Any = apprise.Apprise.instantiate(address, suppress_exceptions=True)
        if self._service is None:
            raise BadAlert(
                f"apprise does not know the address {redacted(address)}",
                hint="mailto://, http(s)://, webpush://FILE, or a service that apprise lists",
            )

    def send(self, message: Message, content: Rendered) -> str:
        reasons = _Reasons(threading.get_ident())
        logger = logging.getLogger("apprise")
        logger.addHandler(reasons)
        try:
            taken = self._service.notify(
                title=content.title, body=content.text, notify_type=_TYPES[message.kind]
            )
        finally:
            logger.removeHandler(reasons)
        if not taken:
            reason = scrubbed("; ".join(reasons.lines), self._address)[:500]
            raise DeliveryFailed(reason or "the service did not take it")
        return ""
