"""Edges: what takes events from the outside and hands them to a broker, over the wire.

event       one event on its way to a topic
overload    the intake of an edge: what happens when events arrive faster than the broker takes them
waiting     events that wait in memory: the policies drop and block
spool       events on disk: the policy buffer
delivery    the producer: events in flight, and what the broker reported
counters    what became of the events; `metrics` serves them
statsd      a StatsD listener
tcp         lines over TCP
datagrams   many datagrams with one system call, and the drops of the kernel
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.exports import lazy_exports

if TYPE_CHECKING:
    from headrace.edges.event import Event, Fate
    from headrace.edges.overload import Intake, Overloaded, Sent
    from headrace.edges.settings import EdgeSettings
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "event": (
                "Event",
                "Fate",
            ),
            "overload": (
                "Intake",
                "Overloaded",
                "Sent",
            ),
            "settings": ("EdgeSettings",),
        },
    )

__all__ = [
    "EdgeSettings",
    "Event",
    "Fate",
    "Intake",
    "Overloaded",
    "Sent",
]
