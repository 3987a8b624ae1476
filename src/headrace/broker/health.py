"""Whether the broker can do its work now, and if not, why: the response of /health and `headrace broker --check`.

Each check writes a small file, so that the result is right as soon as the disk has room again. Only failures of
background work are kept, for a while (`failures`); failures of requests are not.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Mapping

from headrace.broker.archive_health import ArchiveHealth
from headrace.broker.runtime import Runtime
from headrace.broker.state_topic import Coordinator
from headrace.broker.topics import Topics
from headrace.protocol.error_codes import ErrorCode

PROBE_NAME = ".health"
PROBE_BYTES = 4_096
"""One block of most file systems."""

NAMED_PARTITIONS_MAX = 5
"""Further ones are only counted: a damaged disk may have thousands."""


class Health:
    def __init__(
        self,
        runtime: Runtime,
        *,
        topics: Topics,
        archive: ArchiveHealth,
        coordinators: Mapping[str, Coordinator],
    ) -> None:
        self._settings = runtime.settings
        self._runtime = runtime
        self._topics = topics
        self._archive = archive
        self._coordinators = coordinators
        self._probe: asyncio.Future[str | None] | None = None

    async def problems(self) -> list[str]:
        """Why the broker is unhealthy; empty if it is healthy."""
        disk = await self._disk_problem()
        return [*([disk] if disk is not None else []), *self._other_problems()]

    def _other_problems(self) -> Iterator[str]:
        yield from self._read_only_partitions()
        for what, coordinator in self._coordinators.items():
            if coordinator.unavailable is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                yield f"{what} are not served: their internal topic can't be read; the broker's log has the reason"
        yield from self._runtime.failures.within(self._settings.health_failure_ms / 1000)
        if not self._archive.is_reachable:
            yield "the archive can't be used; the broker's log has the reason"

    def _read_only_partitions(self) -> Iterator[str]:
        rejecting = [
            (partition, partition.log.read_only_reason)
            for partition in self._topics.partitions()
            if partition.log.read_only_reason is not None
        ]
        for partition, reason in rejecting[:NAMED_PARTITIONS_MAX]:
            yield f"partition {partition} is read-only: {reason}"
        if len(rejecting) > NAMED_PARTITIONS_MAX:
            yield f"{len(rejecting) - NAMED_PARTITIONS_MAX} more partitions are read-only"

    async def _disk_problem(self) -> str | None:
        # Checks at the same time share one probe, so a disk that hangs blocks one thread.
        if self._probe is None or self._probe.done():
            self._probe = self._runtime.in_thread(self._write_probe)
        patience_ms = self._settings.health_disk_ms_max
        done, _ = await asyncio.wait([self._probe], timeout=patience_ms / 1000)
        if not done:
            return f"the data folder {self._settings.data_dir} did not store a small file within {patience_ms} ms"
        return self._probe.result()

    def _write_probe(self) -> str | None:
        folder = self._settings.data_dir
        path = os.path.join(folder, PROBE_NAME)
        try:
            self._runtime.files.write_whole(path, bytes(PROBE_BYTES))
            self._runtime.files.remove(path)
            free_bytes = shutil.disk_usage(folder).free
        except OSError as error:
            return f"the data folder {folder} can't be written: {error.strerror or error}"
        if free_bytes < self._settings.health_free_bytes_min:
            return (
                f"the disk of the data folder {folder} has {free_bytes} bytes left, "
                f"less than health_free_bytes_min = {self._settings.health_free_bytes_min}"
            )
        return None
