"""A reception in an event loop of the test, in front of a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from headrace.clock import SystemClock
from headrace.edges.settings import EdgeSettings
from headrace.kafka.cluster import Cluster
from headrace.testing.manual_clock import ManualClock
from headrace.webhooks.incoming.reception import Reception
from headrace.webhooks.incoming.source import Source, sources

T = TypeVar("T")

NOWHERE = Cluster("127.0.0.1:1", timeout_s=0.5)


def stored(data_dir: Path, source: Source) -> Source:
    """Add or replace a definition."""
    catalog = sources(data_dir)
    (catalog.replace if source.name in catalog.names() else catalog.add)(source)
    return source


def received(
    data_dir: Path,
    cluster: Cluster,
    use: Callable[[Reception], Coroutine[Any, Any, T]],
    *,
    clock: ManualClock | None = None,
    answer_ms_max: int = 30_000,
    on_problem: Callable[[str], None] = lambda _text: None,
    **edge: Any,
) -> T:
    """One run of a reception: started, used, and closed."""
    settings = EdgeSettings(data_dir=data_dir, **edge)
    clock = clock or clock_now()

    async def run() -> T:
        reception = Reception(
            cluster, settings, clock=clock, answer_ms_max=answer_ms_max, on_problem=on_problem
        )
        try:
            return await use(reception)
        finally:
            await asyncio.to_thread(reception.close)

    return asyncio.run(run())


def clock_now() -> ManualClock:
    """Brokers reject records of the future, and delete those of long ago."""
    return ManualClock(now_ms=SystemClock().now_ms())
