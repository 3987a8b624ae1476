"""Headrace: one Python platform for event streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.broker.embedded import Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> Any:
    """`headrace.Broker` without making every import of `headrace` pay for the broker."""
    if name == "Broker":
        from headrace.broker.embedded import Broker

        return Broker
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")
