"""What can go wrong with a queue, as far as callers tell it apart."""

from __future__ import annotations

from headrace.errors import HeadraceError


class QueueError(HeadraceError):
    """Any of the below."""


class QueueUnusable(QueueError):
    """The queue cannot be opened, or the broker refuses its consumer for good."""


class MessageSettled(QueueError):
    """A message that was accepted, released or rejected already, or whose queue is closed."""


class AcknowledgementLost(QueueError):
    """The broker did not take acknowledgements: the messages are delivered again."""


class MessageNotStored(QueueError):
    """A message that was put is not confirmed: the broker refused it, or did not answer in time."""
