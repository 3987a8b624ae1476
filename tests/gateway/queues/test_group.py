from __future__ import annotations

import uuid

import pytest

from headrace.gateway.queues.group import Group
from headrace.gateway.settings import GatewaySettings
from headrace.kafka.cluster import Cluster
from headrace.queue.group_settings import OFFSET_RESET
from headrace.queue.outbox import Outbox


@pytest.mark.parametrize(("given", "found"), [({}, "earliest"), ({OFFSET_RESET: "latest"}, "latest")])
def test_new_group_gets_what_every_queue_gets_and_keeps_what_it_has(
    cluster: Cluster, given: dict[str, str], found: str
) -> None:
    name = f"group-{uuid.uuid4().hex[:12]}"
    if given:
        cluster.alter_configs("group", name, given)
    group = Group(cluster, Outbox(cluster.client_config(), 30), GatewaySettings(), name)
    opened = group.open()
    assert opened.values[OFFSET_RESET] == found
    assert group.settings() == opened
