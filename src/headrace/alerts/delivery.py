"""Delivers one message: finds the target in the definitions, renders the text, and sends it."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.alerts.definition import RETRY_FOR_MS, Alert
from headrace.alerts.errors import BadAlert, DeliveryFailed
from headrace.alerts.message import Waiting
from headrace.alerts.rendering import rendered
from headrace.alerts.targets.opening import open_sender, shown_address
from headrace.alerts.targets.vapid import VapidKeys


class Delivery:
    """`alerts` is replaced as a whole when definitions change; lanes use it from their threads."""

    def __init__(self, keys: VapidKeys | None) -> None:
        self.keys = keys
        self.alerts: Mapping[str, Alert] = {}

    def deliver(self, waiting: Waiting) -> str:
        """A remark, which is mostly empty."""
        alert = self.alerts.get(waiting.message.alert)
        target = alert.targets().get(waiting.target) if alert is not None else None
        if alert is None or target is None:
            raise DeliveryFailed("its alert was removed", is_final=True)
        content = rendered(waiting.message, alert.templates)
        try:
            sender = open_sender(target, self.keys)
        except BadAlert as error:
            raise DeliveryFailed(str(error), is_final=True) from error
        remark = sender.send(waiting.message, content)
        return "; ".join(filter(None, (remark, content.problem)))

    def retry_for_ms(self, waiting: Waiting) -> int:
        alert = self.alerts.get(waiting.message.alert)
        return RETRY_FOR_MS if alert is None else alert.retry_for_ms

    def address(self, waiting: Waiting) -> str:
        """For the history, without what is secret."""
        alert = self.alerts.get(waiting.message.alert)
        target = alert.targets().get(waiting.target) if alert is not None else None
        return "" if target is None else shown_address(target)
