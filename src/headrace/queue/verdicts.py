"""What happens before the last acknowledgement of a message: its reason is written, and its requester gets an error."""

from __future__ import annotations

from confluent_kafka import AcknowledgeType

from headrace.queue.message import Delivery
from headrace.queue.rejections import Rejections
from headrace.queue.replies import Replies
from headrace.queue.reply_to import reply_to


class Verdicts:
    def __init__(self, rejections: Rejections, replies: Replies) -> None:
        self._rejections = rejections
        self._replies = replies

    def prepare(self, message: Delivery, how: AcknowledgeType, reason: str) -> AcknowledgeType:
        """The acknowledgement to send. If this raises, the message must not be acknowledged."""
        is_final = how is AcknowledgeType.REJECT
        if how is AcknowledgeType.RELEASE and self._rejections.is_last_delivery(message):
            # The broker archives it now. One that writes no dead letters would leave no trace of it.
            is_final = True
            if self._rejections.writes_letters:
                how = AcknowledgeType.REJECT
                reason = reason or f"delivery limit of {message.delivery_count} reached"
        if is_final:
            self._rejections.prepare(message, reason)
            if (to := reply_to(message.headers)) is not None:
                self._replies.send_error(to, reason)
        return how
