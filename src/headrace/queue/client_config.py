"""The configuration that all of a queue's clients share, and whether its broker is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.bootstrap import CONNECT_TIMEOUT_S, NoBroker, client_settings, require_broker
from headrace.queue.errors import QueueUnusable


def client_config(bootstrap: str | None, more: Mapping[str, Any] | None) -> dict[str, Any]:
    """Errors come back from calls: the client's own log lines are off unless `more` asks for them."""
    # A program that names its broker depends on no file and no variable.
    address = bootstrap or (more or {}).get("bootstrap.servers") or client_settings(None).bootstrap
    return {"log_level": 0, **(more or {}), "bootstrap.servers": address}


def require_reachable(bootstrap: str, timeout_s: float) -> None:
    """Fail at once: the client would go on trying until `timeout_s` is over."""
    try:
        require_broker(bootstrap, min(CONNECT_TIMEOUT_S, timeout_s))
    except NoBroker as error:
        raise QueueUnusable(error.message, hint=error.hint) from error
