"""A StateTopic without a server, for tests inside an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from headrace.broker.data_folder import DataFolder
from headrace.broker.parts import Parts
from headrace.broker.settings import BrokerSettings
from headrace.broker.state_topic import StateTopic
from headrace.clock import Clock
from headrace.log.filesystem import DiskFileSystem, FileSystem
from headrace.testing.manual_clock import ManualClock


@contextmanager
def parts_in(
    data_dir: Path,
    *,
    durability: Literal["fsync", "os"] = "os",
    files: FileSystem | None = None,
    clock: Clock | None = None,
    **settings: Any,
) -> Iterator[Parts]:
    files = files or DiskFileSystem()
    folder = DataFolder(data_dir, files)
    parts = Parts(
        BrokerSettings(data_dir=data_dir, durability=durability, **settings),
        cluster_id=folder.cluster_id,
        files=files,
        clock=clock or ManualClock(),
        loop=asyncio.get_running_loop(),
    )
    parts.topics.load()
    try:
        yield parts
    finally:
        parts.flusher.close()
        parts.topics.close()
        parts.runtime.close()
        folder.release()


def state_topic(parts: Parts, name: str) -> StateTopic:
    return StateTopic(name, runtime=parts.runtime, topics=parts.topics, flusher=parts.flusher)
