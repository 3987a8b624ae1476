"""The parts of a running broker. Requests come when all of them are built, so handlers get them together."""

from __future__ import annotations

import asyncio

from headrace.broker.archive_health import ArchiveHealth
from headrace.broker.archiver import Archiver, make_archive
from headrace.broker.byte_rates import ByteRates
from headrace.broker.configs.broker_configs import BrokerConfigs
from headrace.broker.configs.client_metrics import client_metrics
from headrace.broker.configs.client_quotas import ClientQuotas
from headrace.broker.configs.group_configs import LOCK_DURATION, GroupConfigs
from headrace.broker.fetch_sessions import FetchSessions
from headrace.broker.fetch_waiters import FetchWaiters
from headrace.broker.flusher import Flusher
from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.groups.registry import GroupRegistry
from headrace.broker.groups.share_members import ShareMembers
from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.broker.health import Health
from headrace.broker.inspection import Inspection
from headrace.broker.log_throttle import LogThrottle
from headrace.broker.producer_ids import ProducerIds
from headrace.broker.runtime import Runtime
from headrace.broker.settings import BrokerSettings
from headrace.broker.shares.coordinator import ShareCoordinator
from headrace.broker.shares.fetching import ShareFetches
from headrace.broker.shares.storage import STATE_TOPIC
from headrace.broker.state_topic import StateTopic
from headrace.broker.topics import Topics
from headrace.broker.traffic import Traffic
from headrace.broker.transactions.coordinator import TransactionCoordinator
from headrace.broker.transactions.markers import Markers
from headrace.broker.transactions.storage import TRANSACTIONS_TOPIC
from headrace.clock import Clock
from headrace.log.filesystem import FileSystem


class Parts:
    def __init__(
        self,
        settings: BrokerSettings,
        *,
        cluster_id: str,
        files: FileSystem,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Build each part from the parts that it needs, which are complete."""
        data_dir = str(settings.data_dir)
        self.settings = settings
        self.cluster_id = cluster_id
        self.runtime = runtime = Runtime(settings, files, clock, loop)
        self.traffic = Traffic(settings)
        self.log_throttle = LogThrottle()
        archive_health = ArchiveHealth(clock)
        archive = make_archive(settings, archive_health)
        self.topics = topics = Topics(runtime, archive)
        self.archiver = Archiver(runtime, topics=topics, shared=archive, health=archive_health)
        self.producer_ids = ProducerIds(files, data_dir)
        self.flusher = flusher = Flusher(runtime)
        self.inspection = Inspection(runtime, self.traffic.add_inflight)
        self.fetch_waiters = FetchWaiters(loop, settings.waiting_fetches_max)
        self.fetch_sessions = FetchSessions(settings.fetch_sessions_max, settings.fetch_sessions_bytes_max)
        self.client_quotas = ClientQuotas(files, data_dir, entities_max=settings.client_quotas_max)
        self.byte_rates = ByteRates(self.client_quotas, window_s=settings.client_quota_window_ms / 1000)
        self.broker_configs = BrokerConfigs(files, data_dir)
        self.client_metrics = client_metrics(files, data_dir, names_max=settings.client_metrics_max)
        self.group_configs = configs = GroupConfigs(
            files,
            data_dir,
            defaults={LOCK_DURATION: str(settings.share_record_lock_duration_ms)},
            groups_max=settings.groups_max,
        )
        registry = GroupRegistry(settings)
        self.groups = GroupCoordinator(
            runtime,
            topics=topics,
            state=self._state_topic(OFFSETS_TOPIC),
            configs=configs,
            registry=registry,
        )
        self.shares = ShareCoordinator(
            runtime,
            topics=topics,
            state=self._state_topic(STATE_TOPIC),
            flusher=flusher,
            configs=configs,
            registry=registry,
        )
        self.share_members = ShareMembers(
            runtime,
            topics=topics,
            configs=configs,
            registry=registry,
            shares=self.shares,
        )
        self.share_fetches = ShareFetches(self.shares, self.fetch_waiters, runtime)
        self.markers = Markers(clock, topics, flusher, self.groups.offsets)
        self.transactions = TransactionCoordinator(
            runtime,
            topics=topics,
            state=self._state_topic(TRANSACTIONS_TOPIC),
            markers=self.markers,
            groups=self.groups,
            producer_ids=self.producer_ids,
            log_throttle=self.log_throttle,
        )
        self.health = Health(
            runtime,
            topics=topics,
            archive=archive_health,
            coordinators={
                "groups": self.groups,
                "share groups": self.shares,
                "transactions": self.transactions,
            },
        )

    def _state_topic(self, name: str) -> StateTopic:
        return StateTopic(name, runtime=self.runtime, topics=self.topics, flusher=self.flusher)
