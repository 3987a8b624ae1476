"""What all targets of a process share."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from headrace.clock import Clock, SystemClock
from headrace.kafka.cluster import Cluster
from headrace.webhooks.outgoing.dialling import Lookup
from headrace.webhooks.outgoing.settings import OutgoingSettings


class Parts(Struct, frozen=True, kw_only=True):
    cluster: Cluster
    settings: OutgoingSettings
    clock: Clock = SystemClock()
    random: Callable[[], float] = random.random
    lookup: Lookup = socket.getaddrinfo

    @property
    def data_dir(self) -> Path:
        return self.settings.data_dir
