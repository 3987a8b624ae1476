"""A target of a topic at work: what it counts, and that its end leaves nothing open."""

from __future__ import annotations

import asyncio
from pathlib import Path

from headrace.kafka.cluster import Cluster
from headrace.webhooks.outgoing.attempts import AttemptLog
from headrace.webhooks.outgoing.health import Health
from headrace.webhooks.outgoing.parts import Parts
from headrace.webhooks.outgoing.settings import OutgoingSettings
from headrace.webhooks.outgoing.topic_run import TopicRun
from tests.webhooks.outgoing.conftest import Receiver, Write, committed, target_of

LOOK_S = 0.01


def test_run_counts_what_it_did_and_leaves_its_group(
    cluster: Cluster, receiver: Receiver, tmp_path: Path, topic: str, write: Write
) -> None:
    target = target_of(topic, receiver.url(), filter="amount > 100")
    write(topic, b'{"amount": 1}', b'{"amount": 101}', b"no JSON")

    async def run() -> TopicRun:
        parts = Parts(cluster=cluster, settings=OutgoingSettings(data_dir=tmp_path))
        log = AttemptLog(tmp_path, bytes_max=65_536)
        running = TopicRun(target, parts, attempts=log, health=Health(), on_pause=lambda _reason: None)
        async with asyncio.timeout(60):
            while running.status().delivered + running.status().dead_letters < 2:
                running.look()
                await asyncio.sleep(LOOK_S)
        await running.stop()
        return running

    status = asyncio.run(run()).status()
    assert (status.delivered, status.skipped, status.dead_letters, status.failed) == (1, 1, 1, 0)
    assert (status.pending, status.in_flight, status.error) == (0, 0, "")
    assert committed(cluster, target) == {0: 3}
    described = cluster.describe_group(target.group)
    assert described is not None
    assert described.members == []
