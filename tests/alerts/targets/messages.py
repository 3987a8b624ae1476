"""Messages to send."""

from __future__ import annotations

from headrace.alerts.message import ListedKey, Message, MessageKind
from headrace.alerts.rendering import Rendered

CONTENT = Rendered(title="title", text="text")


def firing(kind: MessageKind = MessageKind.FIRING) -> Message:
    listed = ListedKey(
        key={"service": "checkout"}, firing=7, since_ms=1_000, fired_ms=2_000, record={"level": "ERROR"}
    )
    return Message(
        id="a1-7",
        alert="errors",
        topic="logs",
        kind=kind,
        at_ms=3_000,
        firing=(listed,),
        firing_count=1,
        total_firing=1,
    )
