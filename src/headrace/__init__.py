"""Headrace: one Python platform for event streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.exports import lazy_exports

if TYPE_CHECKING:
    from headrace.broker.embedded import Broker
    from headrace.broker.options import BrokerOptions
    from headrace.errors import HeadraceError
    from headrace.questions.client import ask
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "broker.embedded": ("Broker",),
            "broker.options": ("BrokerOptions",),
            "errors": ("HeadraceError",),
            "questions.client": ("ask",),
        },
    )

__all__ = [
    "Broker",
    "BrokerOptions",
    "HeadraceError",
    "ask",
]
