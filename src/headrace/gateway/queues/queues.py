"""The queues that clients use at the moment. An unused one is closed, and opened again by the next request."""

from __future__ import annotations

import asyncio
import contextlib
import time

from headrace.gateway.errors import Overloaded
from headrace.gateway.queues.consumers import Consumers
from headrace.gateway.queues.group import Group
from headrace.gateway.queues.queue import Queue
from headrace.gateway.settings import GatewaySettings
from headrace.kafka.cluster import Cluster
from headrace.kafka.settings import client_config
from headrace.queue.outbox import Outbox

LOOK_S = 1.0
"""How often unused consumers and queues are looked for."""

UNUSED_QUEUE_S_MAX = 60.0
"""For the answers to repeated requests: longer than a client retries one."""


class Queues:
    """Used in the event loop only, from `start` on."""

    def __init__(self, cluster: Cluster, settings: GatewaySettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._queues: dict[tuple[str, str], Queue] = {}
        self._outbox = Outbox(client_config(cluster.bootstrap, None), settings.produce_ms_max / 1000)
        self._consumers = Consumers(settings.queue_consumers_max)

    async def start(self) -> None:
        self._upkeep = asyncio.create_task(self._remove_unused())

    def open(self, topic: str, group: str) -> Queue:
        """Of a topic that exists."""
        found = self.get(topic, group)
        if found is None:
            if len(self._queues) >= self._settings.queues_max:
                raise Overloaded(
                    "clients use too many queues at a time", hint="queues_max in [gateway] is the bound"
                )
            opened = Group(self._cluster, self._outbox, self._settings, group)
            found = Queue(topic, opened, self._consumers, settings_s=self._settings.metadata_ms / 1000)
            self._queues[topic, group] = found
        return found

    def get(self, topic: str, group: str) -> Queue | None:
        """None if it is not in use."""
        return self._queues.get((topic, group))

    async def close(self) -> None:
        """Release every message that a client holds."""
        self._upkeep.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._upkeep
        await self._consumers.close()
        await asyncio.to_thread(self._outbox.close)

    async def _remove_unused(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            now_s = time.monotonic()
            self._consumers.discard_unused(since_s=now_s - self._settings.queue_idle_ms / 1000)
            for key, queue in [*self._queues.items()]:
                if queue.is_unused and queue.used_at_s <= now_s - UNUSED_QUEUE_S_MAX:
                    del self._queues[key]
