from __future__ import annotations

import uuid

from headrace.gateway.queues.group import Group
from headrace.gateway.settings import GatewaySettings
from headrace.kafka.cluster import Cluster
from headrace.queue.group_settings import DEAD_LETTER_TOPIC, OFFSET_RESET
from headrace.queue.outbox import Outbox


def test_new_group_gets_what_every_queue_gets_and_keeps_what_it_has(cluster: Cluster) -> None:
    name = f"group-{uuid.uuid4().hex[:12]}"
    cluster.alter_configs("group", name, {DEAD_LETTER_TOPIC: "mine"})
    group = Group(cluster, Outbox(cluster.client_config(), 30), GatewaySettings(), name)
    opened = group.open()
    assert (opened.values[OFFSET_RESET], opened.dead_letter_topic) == ("earliest", "mine")
    assert group.settings() == opened
