"""What targets share, as a process has it."""

from __future__ import annotations

import socket
from pathlib import Path

from headrace.clock import SystemClock
from headrace.kafka.cluster import Cluster
from headrace.webhooks.outgoing.parts import Parts
from headrace.webhooks.outgoing.settings import OutgoingSettings


def test_process_uses_the_clock_and_the_names_of_its_system(tmp_path: Path) -> None:
    cluster = Cluster("127.0.0.1:1", timeout_s=1)
    parts = Parts(cluster=cluster, settings=OutgoingSettings(data_dir=tmp_path))
    assert parts.data_dir == tmp_path
    assert isinstance(parts.clock, SystemClock)
    assert parts.lookup is socket.getaddrinfo
    assert 0 <= parts.random() <= 1
