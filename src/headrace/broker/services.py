"""The parts of a running broker, as handlers reach them."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headrace.broker.archive_deletions import ArchiveDeletions
from headrace.broker.archive_health import ArchiveHealth
from headrace.broker.archiver import Archiver, make_archive
from headrace.broker.broker_configs import BrokerConfigs
from headrace.broker.byte_rates import ByteRates
from headrace.broker.client import Client
from headrace.broker.client_metrics import client_metrics
from headrace.broker.client_quotas import ClientQuotas
from headrace.broker.data_folder import DataFolder
from headrace.broker.fetch_sessions import FetchSessions
from headrace.broker.fetch_waiters import FetchWaiters
from headrace.broker.flusher import Flusher
from headrace.broker.group_configs import LOCK_DURATION, GroupConfigs
from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.groups.share_members import ShareMembers
from headrace.broker.health import Health
from headrace.broker.inspection import Inspection
from headrace.broker.log_throttle import LogThrottle
from headrace.broker.partition import Partition
from headrace.broker.producer_ids import ProducerIds
from headrace.broker.settings import BrokerSettings
from headrace.broker.shares.coordinator import ShareCoordinator
from headrace.broker.topics import Topics
from headrace.broker.traffic import Traffic
from headrace.broker.transactions.coordinator import TransactionCoordinator
from headrace.clock import Clock
from headrace.errors import HeadraceError
from headrace.log.filesystem import FileSystem
from headrace.log.partition_log import Appended
from headrace.values import value

logger = logging.getLogger(__name__)

# Reads of data that is not in the page cache, look-ups by time, compaction: whatever may wait for the disk.
DISK_THREADS = 4


@value
class Endpoint:
    node_id: int
    host: str
    port: int


class Counters:
    """What happened since the start, for metrics."""

    def __init__(self) -> None:
        self.produced_bytes = 0
        self.fetched_bytes = 0
        self.missed_records = 0
        self.storage_failures = 0
        self.compactions = 0
        self.expired_segments = 0
        self.background_failures = 0


class Services:
    def __init__(
        self,
        settings: BrokerSettings,
        *,
        folder: DataFolder,
        files: FileSystem,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.loop = loop
        self.cluster_id = folder.cluster_id
        self.traffic = Traffic(settings)
        self.log_throttle = LogThrottle()
        self.counters = Counters()
        archive_health = ArchiveHealth(clock)
        archive = make_archive(settings, archive_health)
        deletions = ArchiveDeletions(files, str(settings.data_dir))
        self.topics = Topics(settings, files, clock, archive=archive, archive_deletions=deletions)
        self.archiver = Archiver(
            settings,
            shared=archive,
            health=archive_health,
            deletions=deletions,
            topics=self.topics,
            files=files,
            clock=clock,
            loop=loop,
        )
        self.producer_ids = ProducerIds(files, str(settings.data_dir))
        self.flusher = Flusher(loop, settings.flush_threads)
        self.inspection = Inspection(loop, clock, settings.inspection_threads, self.traffic.add_inflight)
        self.fetch_waiters = FetchWaiters(loop, settings.waiting_fetches_max)
        self.fetch_sessions = FetchSessions(settings.fetch_sessions_max, settings.fetch_sessions_bytes_max)
        self.disk_threads = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="disk")
        self.client_quotas = ClientQuotas(
            files, str(settings.data_dir), entities_max=settings.client_quotas_max
        )
        self.byte_rates = ByteRates(self.client_quotas, window_s=settings.client_quota_window_ms / 1000)
        self.broker_configs = BrokerConfigs(files, str(settings.data_dir))
        self.client_metrics = client_metrics(
            files, str(settings.data_dir), names_max=settings.client_metrics_max
        )
        self.group_configs = GroupConfigs(
            files,
            str(settings.data_dir),
            defaults={LOCK_DURATION: str(settings.share_record_lock_duration_ms)},
            groups_max=settings.groups_max,
        )
        self.groups = GroupCoordinator(self)
        self.share_members = ShareMembers(self)
        self.shares = ShareCoordinator(self)
        self.transactions = TransactionCoordinator(self)
        self.health = Health(
            settings,
            files=files,
            topics=self.topics,
            archive=archive_health,
            coordinators={
                "groups": self.groups,
                "share groups": self.shares,
                "transactions": self.transactions,
            },
            threads=self.disk_threads,
            loop=loop,
            clock=clock,
        )

    def background_failed(self, what: str, error: BaseException, **fields: object) -> None:
        """Work that no request waits for has failed: log, count and report it. Whoever calls this goes on."""
        self.counters.background_failures += 1
        self.health.background_failed(what, str(error) or type(error).__name__)
        self.log_failure(what, error, **fields)

    def log_failure(self, what: str, error: BaseException, **fields: object) -> None:
        # What a disk or a setting refuses explains itself; anything else is a bug, and needs its traceback.
        is_explained = isinstance(error, (HeadraceError, OSError))
        logger.error(
            "%s: %s",
            what,
            error,
            exc_info=None if is_explained else error,
            extra={name: field for name, field in fields.items() if field},
        )

    def loop_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """For `set_exception_handler`: a task or a callback ended by an exception that nothing retrieved."""
        error = context.get("exception")
        if error is None:
            loop.default_exception_handler(context)
        else:
            self.background_failed(context["message"], error)

    def advertised(self, client: Client) -> Endpoint:
        """The address told to a client: the one it connected to, unless the settings name another."""
        if self.settings.advertised is None:
            return Endpoint(node_id=self.settings.node_id, host=client.local_host, port=client.local_port)
        host, _, port = self.settings.advertised.rpartition(":")
        return Endpoint(node_id=self.settings.node_id, host=host, port=int(port))

    def threads_for(self, reads_archive: bool) -> ThreadPoolExecutor:
        """Where a read that may wait is made: what hangs in the archive does not hold up the local disk."""
        return self.archiver.read_threads if reads_archive else self.disk_threads

    async def append(self, partition: Partition, batch: bytes, *, waits_for_disk: bool = True) -> Appended:
        """Append a batch of the broker's own, and return when it is as durable as the settings ask.

        Without `waits_for_disk` it is flushed as well, but what comes of that only the flusher's log tells.
        """
        appended = partition.log.append(batch, now_ms=self.clock.now_ms(), from_client=False)
        if partition.reads_unsynced:
            partition.grown(len(batch))
        elif waits_for_disk:
            await self.flusher.flushed(partition)
        else:
            self.flusher.flushed(partition).add_done_callback(lambda flushed: flushed.exception())
        return appended

    def append_now(self, partition: Partition, batch: bytes) -> asyncio.Future[None]:
        """Append before anything else can happen; what is returned is done when the batch is durable."""
        partition.log.append(batch, now_ms=self.clock.now_ms(), from_client=False)
        if not partition.reads_unsynced:
            return self.flusher.flushed(partition)
        partition.grown(len(batch))
        done: asyncio.Future[None] = self.loop.create_future()
        done.set_result(None)
        return done
