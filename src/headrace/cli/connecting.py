"""The cluster that a command talks to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.kafka.settings import client_settings, require_broker

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster


def connect(bootstrap: str | None, *, timeout_s_max: float = float("inf")) -> Cluster:
    """The cluster of `--bootstrap` or of the settings, after a check that a broker listens there."""
    from headrace.kafka.cluster import Cluster

    settings = client_settings(bootstrap)
    timeout_s = min(settings.timeout_s, timeout_s_max)
    require_broker(settings.bootstrap, timeout_s)
    # The client's own error lines would mix with the command's output.
    config = {"client.id": "headrace-cli", "error_cb": lambda _error: None}
    return Cluster(settings.bootstrap, timeout_s=timeout_s, config=config)
