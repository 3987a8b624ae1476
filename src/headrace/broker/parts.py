"""The parts of a running broker. Requests come when all of them are built, so handlers get them together."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from headrace.broker.archive_deletions import ArchiveDeletions
from headrace.broker.archive_health import ArchiveHealth
from headrace.broker.archiver import Archiver, make_archive
from headrace.broker.byte_rates import ByteRates
from headrace.broker.configs.broker_configs import BrokerConfigs
from headrace.broker.configs.client_metrics import client_metrics
from headrace.broker.configs.client_quotas import ClientQuotas
from headrace.broker.configs.group_configs import LOCK_DURATION, GroupConfigs
from headrace.broker.configs.resource_configs import ResourceConfigs
from headrace.broker.counters import Counters
from headrace.broker.data_folder import DataFolder
from headrace.broker.fetch_sessions import FetchSessions
from headrace.broker.fetch_waiters import FetchWaiters
from headrace.broker.flusher import Flusher
from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.groups.member_memory import MemberMemory
from headrace.broker.groups.registry import GroupRegistry
from headrace.broker.groups.share_members import ShareMembers
from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.broker.health import Health
from headrace.broker.housekeeping import Housekeeping
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


class Parts(Struct, frozen=True, kw_only=True):
    settings: BrokerSettings
    cluster_id: str
    runtime: Runtime
    traffic: Traffic
    log_throttle: LogThrottle
    counters: Counters
    topics: Topics
    archiver: Archiver
    producer_ids: ProducerIds
    flusher: Flusher
    inspection: Inspection
    fetch_waiters: FetchWaiters
    fetch_sessions: FetchSessions
    client_quotas: ClientQuotas
    byte_rates: ByteRates
    broker_configs: BrokerConfigs
    client_metrics: ResourceConfigs
    group_configs: GroupConfigs
    groups: GroupCoordinator
    shares: ShareCoordinator
    share_members: ShareMembers
    share_fetches: ShareFetches
    markers: Markers
    transactions: TransactionCoordinator
    housekeeping: Housekeeping
    health: Health


def build(
    settings: BrokerSettings,
    *,
    folder: DataFolder,
    files: FileSystem,
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
) -> Parts:
    """Build each part from the parts that it needs, which are complete."""
    data_dir = str(settings.data_dir)
    runtime = Runtime(loop, clock, archive_threads=settings.archive_read_threads)
    traffic = Traffic(settings)
    log_throttle = LogThrottle()
    archive_health = ArchiveHealth(clock)
    archive = make_archive(settings, archive_health)
    deletions = ArchiveDeletions(files, data_dir)
    topics = Topics(settings, files, clock, archive=archive, archive_deletions=deletions)
    archiver = Archiver(
        settings,
        shared=archive,
        health=archive_health,
        deletions=deletions,
        topics=topics,
        files=files,
        clock=clock,
        loop=loop,
    )
    producer_ids = ProducerIds(files, data_dir)
    flusher = Flusher(loop, settings.flush_threads)

    def state_topic(name: str) -> StateTopic:
        bytes_max = settings.decompressed_batch_bytes_max
        return StateTopic(
            name, runtime=runtime, topics=topics, flusher=flusher, decompressed_bytes_max=bytes_max
        )

    fetch_waiters = FetchWaiters(loop, settings.waiting_fetches_max)
    client_quotas = ClientQuotas(files, data_dir, entities_max=settings.client_quotas_max)
    group_configs = GroupConfigs(
        files,
        data_dir,
        defaults={LOCK_DURATION: str(settings.share_record_lock_duration_ms)},
        groups_max=settings.groups_max,
    )
    registry = GroupRegistry(settings.groups_max)
    memory = MemberMemory(
        member_bytes_max=settings.group_member_bytes_max,
        groups_bytes_max=settings.groups_bytes_max,
        groups=registry,
    )
    groups = GroupCoordinator(
        settings,
        runtime=runtime,
        topics=topics,
        state=state_topic(OFFSETS_TOPIC),
        configs=group_configs,
        registry=registry,
        memory=memory,
    )
    shares = ShareCoordinator(
        settings,
        runtime=runtime,
        topics=topics,
        state=state_topic(STATE_TOPIC),
        flusher=flusher,
        configs=group_configs,
        registry=registry,
    )
    share_members = ShareMembers(
        settings,
        runtime=runtime,
        topics=topics,
        configs=group_configs,
        registry=registry,
        memory=memory,
        shares=shares,
    )
    markers = Markers(clock, topics, flusher, groups.offsets)
    transactions = TransactionCoordinator(
        settings,
        runtime=runtime,
        topics=topics,
        state=state_topic(TRANSACTIONS_TOPIC),
        markers=markers,
        groups=groups,
        producer_ids=producer_ids,
        log_throttle=log_throttle,
    )
    housekeeping = Housekeeping(
        settings,
        runtime=runtime,
        folder=folder,
        topics=topics,
        flusher=flusher,
        archiver=archiver,
        traffic=traffic,
        groups=groups,
        shares=shares,
        transactions=transactions,
    )
    health = Health(
        settings,
        runtime=runtime,
        files=files,
        topics=topics,
        archive=archive_health,
        coordinators={"groups": groups, "share groups": shares, "transactions": transactions},
    )
    return Parts(
        settings=settings,
        cluster_id=folder.cluster_id,
        runtime=runtime,
        traffic=traffic,
        log_throttle=log_throttle,
        counters=Counters(),
        topics=topics,
        archiver=archiver,
        producer_ids=producer_ids,
        flusher=flusher,
        inspection=Inspection(loop, clock, settings.inspection_threads, traffic.add_inflight),
        fetch_waiters=fetch_waiters,
        fetch_sessions=FetchSessions(settings.fetch_sessions_max, settings.fetch_sessions_bytes_max),
        client_quotas=client_quotas,
        byte_rates=ByteRates(client_quotas, window_s=settings.client_quota_window_ms / 1000),
        broker_configs=BrokerConfigs(files, data_dir),
        client_metrics=client_metrics(files, data_dir, names_max=settings.client_metrics_max),
        group_configs=group_configs,
        groups=groups,
        shares=shares,
        share_members=share_members,
        share_fetches=ShareFetches(shares, fetch_waiters, runtime),
        markers=markers,
        transactions=transactions,
        housekeeping=housekeeping,
        health=health,
    )
