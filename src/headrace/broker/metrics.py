"""Prometheus metrics and health on an HTTP port of their own.

The broker counts in plain integers; they become metrics only when a page is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from headrace.broker.archiver import Archiver
from headrace.broker.counters import Counters
from headrace.broker.failures import Failures
from headrace.broker.fetch_sessions import FetchSessions
from headrace.broker.fetch_waiters import FetchWaiters
from headrace.broker.flusher import Flusher
from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.groups.offsets import TopicPartition
from headrace.broker.groups.share_members import ShareMembers
from headrace.broker.groups.subscription import subscribed_topics
from headrace.broker.housekeeping import Housekeeping
from headrace.broker.http_server import HttpServer, Page
from headrace.broker.parts import Parts
from headrace.broker.refusals import RequestRefused
from headrace.broker.shares.coordinator import ShareCoordinator
from headrace.broker.shares.numbers import SHARE_COUNTERS, SHARE_GAUGES, group_numbers
from headrace.broker.topics import Topics
from headrace.broker.traffic import Traffic
from headrace.broker.transactions.coordinator import TransactionCoordinator
from headrace.broker.transactions.state import TransactionState
from headrace.clock import Clock
from headrace.protocol.api_keys import ApiKey


class BrokerCollector(Collector):
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Metric]:
        parts, clock = self._parts, self._parts.runtime.clock
        yield from _traffic(parts.traffic)
        yield from _requests(parts.counters, parts.flusher, parts.fetch_waiters, parts.fetch_sessions)
        yield from _background(parts.housekeeping, parts.runtime.failures)
        yield from _partitions(parts.topics)
        yield from _transactions(parts.transactions, clock)
        yield from _groups(parts.groups, parts.topics)
        yield from _share_groups(parts.shares, parts.share_members, clock)
        yield from _archive(parts.archiver, parts.topics)


def _traffic(traffic: Traffic) -> Iterator[Metric]:
    requests = CounterMetricFamily("headrace_requests", "Requests received, by API.", labels=["api"])
    for key, count in list(traffic.requests.items()):
        requests.add_metric([ApiKey(key).name.lower()], count)
    yield requests
    yield _gauge("headrace_connections", "Open connections.", len(traffic.connections))
    yield _gauge("headrace_connections_held", "Connections that are not read now.", traffic.held_connections)
    yield _gauge(
        "headrace_inflight_bytes", "Bytes of requests and responses in flight.", traffic.inflight_bytes
    )
    yield _gauge(
        "headrace_unread_bytes",
        "Bytes of requests that are received in part or wait for memory.",
        traffic.unread_bytes,
    )
    yield _counter("headrace_received_bytes", "Bytes of requests.", traffic.received_bytes)
    yield _counter(
        "headrace_connections_rejected", "Connections refused over the limit.", traffic.rejected_connections
    )
    yield _counter(
        "headrace_connections_refused", "Connections closed for malformed requests.", traffic.refused
    )
    yield _counter("headrace_requests_failed", "Requests that failed inside the broker.", traffic.failed)
    yield _counter("headrace_pauses", "How often the broker stopped reading from a client.", traffic.pauses)


def _requests(
    counters: Counters, flusher: Flusher, fetch_waiters: FetchWaiters, fetch_sessions: FetchSessions
) -> Iterator[Metric]:
    yield _counter("headrace_produced_bytes", "Bytes of batches appended.", counters.produced_bytes)
    yield _counter("headrace_fetched_bytes", "Bytes of batches sent.", counters.fetched_bytes)
    yield _counter(
        "headrace_missed_records",
        "Records that retention deleted before a consumer read them.",
        counters.missed_records,
    )
    yield _counter("headrace_storage_failures", "Writes and fsyncs that failed.", counters.storage_failures)
    yield _counter("headrace_flushes", "fsyncs shared by waiting requests.", flusher.flushes)
    yield _gauge("headrace_waiting_fetches", "Fetches that wait for data.", len(fetch_waiters))
    yield _gauge("headrace_fetch_sessions", "Fetch sessions.", len(fetch_sessions))


def _background(housekeeping: Housekeeping, failures: Failures) -> Iterator[Metric]:
    yield _counter("headrace_compactions", "Compaction passes.", housekeeping.compactions)
    yield _counter(
        "headrace_expired_segments", "Segments removed by retention.", housekeeping.expired_segments
    )
    yield _counter(
        "headrace_background_failures",
        "Failures of background work; the broker's log has each.",
        failures.count,
    )


def _partitions(topics: Topics) -> Iterator[Metric]:
    labels = ["topic", "partition"]
    start = GaugeMetricFamily("headrace_log_start_offset", "First offset of a partition.", labels=labels)
    end = GaugeMetricFamily("headrace_log_end_offset", "Next offset of a partition.", labels=labels)
    size = GaugeMetricFamily("headrace_log_size_bytes", "Bytes of a partition's segments.", labels=labels)
    read_only = GaugeMetricFamily("headrace_log_read_only", "1 if appends are refused.", labels=labels)
    for partition in list(topics.partitions()):
        values = [partition.topic_name, str(partition.index)]
        start.add_metric(values, partition.log.start_offset)
        end.add_metric(values, partition.log.end_offset)
        size.add_metric(values, partition.log.segments.size_bytes)
        read_only.add_metric(values, partition.log.read_only_reason is not None)
    yield from (start, end, size, read_only)


def _transactions(transactions: TransactionCoordinator, clock: Clock) -> Iterator[Metric]:
    try:
        known = [*transactions.transactions()]
    except RequestRefused:
        known = []  # not loaded yet
    is_open = [one for one in known if not one.state.is_at_rest]
    begun_ms = min((one.started_ms for one in is_open if one.state is TransactionState.ONGOING), default=None)
    age_ms = 0 if begun_ms is None else max(clock.now_ms() - begun_ms, 0)
    counters = transactions.counters
    yield _gauge("headrace_transactional_ids", "Transactional ids.", len(known))
    yield _gauge("headrace_transactions_open", "Open transactions.", len(is_open))
    yield _gauge(
        "headrace_transactions_oldest_open_seconds",
        "Age of the oldest open transaction: it delays consumers that read committed data only.",
        age_ms / 1000,
    )
    yield _counter("headrace_transactions_committed", "Transactions committed.", counters.committed)
    yield _counter("headrace_transactions_aborted", "Transactions aborted.", counters.aborted)
    yield _counter(
        "headrace_transactions_timed_out",
        "Transactions aborted by their timeout.",
        counters.timed_out,
    )


def _groups(groups: GroupCoordinator, topics: Topics) -> Iterator[Metric]:
    """Groups that commit offsets, of both protocols; `_share_groups` has the others."""
    labels = ["group", "protocol"]
    members = GaugeMetricFamily("headrace_group_members", "Members of a group.", labels=labels)
    epoch = GaugeMetricFamily(
        "headrace_group_epoch",
        "Generation or epoch of a group: it grows with every change.",
        labels=labels,
    )
    lag = GaugeMetricFamily(
        "headrace_group_lag",
        "Records that a group has not read in the topics that it subscribes to or has committed offsets for. "
        "A partition without a commit counts from its start.",
        labels=labels,
    )
    for group_id, protocol, member_count, number, subscribed in _groups_with_offsets(groups):
        values = [group_id, protocol]
        members.add_metric(values, member_count)
        epoch.add_metric(values, number)
        lag.add_metric(values, _lag(group_id, subscribed, groups, topics))
    yield from (members, epoch, lag)


def _groups_with_offsets(groups: GroupCoordinator) -> list[tuple[str, str, int, int, AbstractSet[str]]]:
    """Each with its protocol, members, generation or epoch, and the topics that its members subscribe to."""
    try:
        classic, newer = [*groups.groups()], [*groups.consumer_groups()]
    except RequestRefused:
        return []  # not loaded yet
    return [
        *(
            (one.group_id, "classic", len(one.members), one.generation, subscribed_topics(one) or set())
            for one in classic
        ),
        *(
            (one.group_id, "consumer", len(one.members), one.epochs.group, one.subscribed_topics())
            for one in newer
        ),
    ]


def _lag(group_id: str, subscribed: AbstractSet[str], groups: GroupCoordinator, topics: Topics) -> int:
    try:
        committed = dict(groups.offsets.committed(group_id))
    except RequestRefused:
        return 0  # the broker is stopping
    consumed = [topics.get(name) for name in subscribed | {one.topic for one in committed}]
    lag = 0
    for partition in (one for topic in consumed if topic is not None for one in tuple(topic.partitions)):
        position = committed.get(TopicPartition(partition.topic_name, partition.index))
        first = partition.log.start_offset
        if position is not None:
            first = max(first, position.offset)
        lag += max(partition.high_watermark - first, 0)
    return lag


def _share_groups(shares: ShareCoordinator, members: ShareMembers, clock: Clock) -> Iterator[Metric]:
    """Queues: locked, waiting, redelivered and dead records of each group."""
    labels = ["group"]
    families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {
        name: GaugeMetricFamily(f"headrace_share_{name}", doc, labels=labels)
        for name, doc in SHARE_GAUGES.items()
    }
    for name, doc in SHARE_COUNTERS.items():
        families[name] = CounterMetricFamily(f"headrace_share_{name}", doc, labels=labels)
    now_ms = clock.now_ms()
    for group_id in shares.group_ids():
        numbers = group_numbers([*shares.of_group(group_id)], now_ms)
        group = members.get(group_id)
        numbers["members"] = len(group.members) if group is not None else 0
        for name, family in families.items():
            family.add_metric([group_id], numbers[name])
    yield from families.values()
    yield _gauge("headrace_share_sessions", "Share sessions.", len(shares.sessions))


def _archive(archiver: Archiver, topics: Topics) -> Iterator[Metric]:
    health, cache = archiver.health, archiver.shared.cache
    segments, size_bytes = archiver.waiting()
    logs = [partition.log for partition in list(topics.partitions())]
    archived = [entry for log in logs for entry in log.archive.entries]
    yield _gauge("headrace_archive_reachable", "0 while the archive fails.", health.is_reachable)
    yield _gauge("headrace_archive_waiting_segments", "Closed segments not archived yet.", segments)
    yield _gauge("headrace_archive_waiting_bytes", "Bytes of segments not archived yet.", size_bytes)
    yield _gauge("headrace_archive_segments", "Segments in the archive.", len(archived))
    yield _gauge(
        "headrace_archive_bytes",
        "Bytes of segments in the archive.",
        sum(entry.size_bytes for entry in archived),
    )
    yield _gauge(
        "headrace_archive_last_success_timestamp_seconds",
        "Time of the last success of the archive.",
        health.last_success_ms / 1000,
    )
    yield _counter("headrace_archive_failures", "Failures of the archive.", health.failures)
    yield _counter(
        "headrace_archive_corrupt_reads", "Reads of damaged objects in the archive.", health.corrupt_reads
    )
    yield _counter("headrace_archive_copied_segments", "Segments archived.", archiver.copied_segments)
    yield _counter("headrace_archive_copied_bytes", "Bytes archived.", archiver.copied_bytes)
    yield _counter(
        "headrace_archive_deleted_segments", "Segments deleted from the archive.", archiver.deleted_segments
    )
    yield _counter(
        "headrace_archive_local_copies_removed",
        "Local copies of archived segments removed.",
        archiver.local_copies_removed,
    )
    yield _gauge("headrace_archive_cache_bytes", "Bytes in the cache.", cache.size_bytes)
    yield _counter("headrace_archive_cache_hits", "Pieces read from the cache.", cache.hits)
    yield _counter("headrace_archive_cache_misses", "Pieces read from the archive.", cache.misses)


def _gauge(name: str, doc: str, value: float) -> Metric:
    return GaugeMetricFamily(name, doc, value=value)


def _counter(name: str, doc: str, value: float) -> Metric:
    return CounterMetricFamily(name, doc, value=value)


async def serve_metrics(parts: Parts, host: str, port: int) -> tuple[Callable[[], None], int]:
    """Serve /metrics and /health; a function that stops it, and the port."""
    registry = CollectorRegistry()
    registry.register(BrokerCollector(parts))
    # One page at a time, in a thread: with thousands of partitions it takes a while.
    thread = ThreadPoolExecutor(1, thread_name_prefix="metrics")

    async def metrics(accept: str) -> Page:
        encode, content_type = choose_encoder(accept)
        body = await parts.runtime.loop.run_in_executor(thread, encode, registry)
        return Page(content_type=content_type, body=body)

    async def health(_accept: str) -> Page:
        problems = await parts.health.problems()
        if not problems:
            return Page(body=b"healthy\n")
        text = "\n".join(["unhealthy", *problems, ""])
        return Page(status=HTTPStatus.SERVICE_UNAVAILABLE, body=text.encode())

    settings = parts.settings
    server = HttpServer(
        {"/metrics": metrics, "/health": health},
        connections_max=settings.metrics_connections_max,
        timeout_s=settings.metrics_request_ms_max / 1000,
    )

    def stop() -> None:
        server.close()
        thread.shutdown(wait=False, cancel_futures=True)

    return stop, await server.start(host, port)
