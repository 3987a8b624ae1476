"""The contract of targets."""

from __future__ import annotations

import abc

from headrace.alerts.message import Message
from headrace.alerts.rendering import Rendered


class Sender(abc.ABC):
    """Sends to one target. Threads do not share it."""

    @abc.abstractmethod
    def send(self, message: Message, content: Rendered) -> str:
        """A remark, which is mostly empty; DeliveryFailed if the target did not take it."""
