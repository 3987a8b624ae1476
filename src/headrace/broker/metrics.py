"""Prometheus metrics and health on an HTTP port of their own.

The broker counts in plain integers; they become metrics only when a page is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from headrace.broker.groups.consumer_embedded import subscribed_topics
from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.groups.offsets import TopicPartition
from headrace.broker.housekeeping import Housekeeping
from headrace.broker.http_server import HttpServer, Page
from headrace.broker.parts import Parts
from headrace.broker.rejections import RequestRejected
from headrace.broker.shares.share_partition import SHARE_COUNTERS, SHARE_GAUGES, group_numbers
from headrace.broker.topics import Topics
from headrace.broker.transactions.state import TransactionState
from headrace.protocol.api_keys import ApiKey

Row = tuple[Sequence[str], Sequence[float]]
"""The labels of an object, and the value of each of its metrics."""


class BrokerCollector(Collector):
    def __init__(self, parts: Parts, housekeeping: Housekeeping) -> None:
        self._parts = parts
        self._housekeeping = housekeeping

    def collect(self) -> Iterator[Metric]:
        yield from _traffic(self._parts)
        yield from _background(self._parts, self._housekeeping)
        yield from _partitions(self._parts)
        yield from _transactions(self._parts)
        yield from _groups(self._parts)
        yield from _share_groups(self._parts)
        yield from _archive(self._parts)


def _gauges(*metrics: tuple[str, str, float]) -> Iterator[Metric]:
    """Each with its name, its meaning and its value."""
    for name, doc, value in metrics:
        yield GaugeMetricFamily(f"headrace_{name}", doc, value=value)


def _counters(*metrics: tuple[str, str, float]) -> Iterator[Metric]:
    for name, doc, value in metrics:
        yield CounterMetricFamily(f"headrace_{name}", doc, value=value)


def _labelled(
    family: type[GaugeMetricFamily | CounterMetricFamily],
    labels: Sequence[str],
    docs: Mapping[str, str],
    rows: Iterable[Row],
) -> Iterator[Metric]:
    """Metrics of many objects, by name with their meaning."""
    families = [family(f"headrace_{name}", doc, labels=labels) for name, doc in docs.items()]
    for label_values, values in rows:
        for one, value in zip(families, values, strict=True):
            one.add_metric(label_values, value)
    yield from families


def _traffic(parts: Parts) -> Iterator[Metric]:
    traffic = parts.traffic
    requests = [([ApiKey(key).name.lower()], [count]) for key, count in list(traffic.requests.items())]
    yield from _labelled(CounterMetricFamily, ["api"], {"requests": "Requests received, by API."}, requests)
    yield from _gauges(
        ("connections", "Open connections.", len(traffic.connections)),
        ("connections_held", "Connections that are not read now.", traffic.held_connections),
        ("inflight_bytes", "Bytes of requests and responses in flight.", traffic.inflight_bytes),
        (
            "unread_bytes",
            "Bytes of requests that are received in part or wait for memory.",
            traffic.unread_bytes,
        ),
        ("waiting_fetches", "Fetches that wait for data.", len(parts.fetch_waiters)),
        ("fetch_sessions", "Fetch sessions.", len(parts.fetch_sessions)),
    )
    yield from _counters(
        ("received_bytes", "Bytes of requests.", traffic.received_bytes),
        ("connections_rejected", "Connections refused over the limit.", traffic.rejected_connections),
        ("connections_refused", "Connections closed for malformed requests.", traffic.malformed),
        ("requests_failed", "Requests that failed inside the broker.", traffic.failed),
        ("pauses", "How often the broker stopped reading from a client.", traffic.pauses),
        ("produced_bytes", "Bytes of batches appended.", traffic.produced_bytes),
        ("fetched_bytes", "Bytes of batches sent.", traffic.fetched_bytes),
        (
            "missed_records",
            "Records that retention deleted before a consumer read them.",
            traffic.missed_records,
        ),
        ("storage_failures", "Writes and fsyncs that failed.", traffic.storage_failures),
        ("flushes", "fsyncs shared by waiting requests.", parts.flusher.flushes),
    )


def _background(parts: Parts, housekeeping: Housekeeping) -> Iterator[Metric]:
    failures = parts.runtime.failures.count
    yield from _counters(
        ("compactions", "Compaction passes.", housekeeping.compactions),
        ("expired_segments", "Segments removed by retention.", housekeeping.expired_segments),
        ("background_failures", "Failures of background work; the broker's log has each.", failures),
    )


def _partitions(parts: Parts) -> Iterator[Metric]:
    docs = {
        "log_start_offset": "First offset of a partition.",
        "log_end_offset": "Next offset of a partition.",
        "log_size_bytes": "Bytes of a partition's segments.",
        "log_read_only": "1 if appends are rejected.",
    }
    logs = [(one.topic_name, str(one.index), one.log) for one in parts.topics.partitions()]
    rows = (
        (
            (topic, index),
            (log.start_offset, log.end_offset, log.segments.size_bytes, log.read_only_reason is not None),
        )
        for topic, index, log in logs
    )
    yield from _labelled(GaugeMetricFamily, ["topic", "partition"], docs, rows)


def _transactions(parts: Parts) -> Iterator[Metric]:
    try:
        known = [*parts.transactions.transactions()]
    except RequestRejected:
        known = []  # not loaded yet
    is_open = [one for one in known if not one.state.is_at_rest]
    started_ms = [one.started_ms for one in is_open if one.state is TransactionState.ONGOING]
    now_ms = parts.runtime.clock.now_ms()
    counters = parts.transactions.counters
    yield from _gauges(
        ("transactional_ids", "Transactional ids.", len(known)),
        ("transactions_open", "Open transactions.", len(is_open)),
        (
            "transactions_oldest_open_seconds",
            "Age of the oldest open transaction: it delays consumers that read committed data only.",
            max(now_ms - min(started_ms, default=now_ms), 0) / 1000,
        ),
    )
    yield from _counters(
        ("transactions_committed", "Transactions committed.", counters.committed),
        ("transactions_aborted", "Transactions aborted.", counters.aborted),
        ("transactions_timed_out", "Transactions aborted by their timeout.", counters.timed_out),
    )


def _groups(parts: Parts) -> Iterator[Metric]:
    """Groups that commit offsets, of both protocols; `_share_groups` has the others."""
    docs = {
        "group_members": "Members of a group.",
        "group_epoch": "Generation or epoch of a group: it grows with every change.",
        "group_lag": "Records that a group has not read in the topics that it subscribes to or has committed offsets "
        "for. A partition without a commit counts from its start.",
    }
    rows = (
        ((group_id, protocol), (members, epoch, _lag(group_id, subscribed, parts.groups, parts.topics)))
        for group_id, protocol, members, epoch, subscribed in _groups_with_offsets(parts.groups)
    )
    yield from _labelled(GaugeMetricFamily, ["group", "protocol"], docs, rows)


def _groups_with_offsets(
    groups: GroupCoordinator,
) -> Iterator[tuple[str, str, int, int, AbstractSet[str]]]:
    """Each with its protocol, members, generation or epoch, and the topics that its members subscribe to."""
    try:
        classic, newer = [*groups.groups()], [*groups.consumer_groups()]
    except RequestRejected:
        return  # not loaded yet
    for group in classic:
        topics: AbstractSet[str] = subscribed_topics(group) or frozenset()
        yield group.group_id, "classic", len(group.members), group.generation, topics
    for one in newer:
        yield one.group_id, "consumer", len(one.members), one.epochs.group, one.subscribed_topics()


def _lag(group_id: str, subscribed: AbstractSet[str], groups: GroupCoordinator, topics: Topics) -> int:
    try:
        committed = dict(groups.offsets.committed(group_id))
    except RequestRejected:
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


def _share_groups(parts: Parts) -> Iterator[Metric]:
    """Queues: locked, waiting, redelivered and dead records of each group."""
    now_ms = parts.runtime.clock.now_ms()
    numbers = {one: group_numbers([*parts.shares.of_group(one)], now_ms) for one in parts.shares.group_ids()}
    for group_id, of_group in numbers.items():
        group = parts.share_members.get(group_id)
        of_group["members"] = len(group.members) if group is not None else 0
    for family, docs in ((GaugeMetricFamily, SHARE_GAUGES), (CounterMetricFamily, SHARE_COUNTERS)):
        rows = [([group_id], [of_group[name] for name in docs]) for group_id, of_group in numbers.items()]
        named = {f"share_{name}": doc for name, doc in docs.items()}
        yield from _labelled(family, ["group"], named, rows)
    yield from _gauges(("share_sessions", "Share sessions.", len(parts.shares.sessions)))


def _archive(parts: Parts) -> Iterator[Metric]:
    archiver = parts.archiver
    health, cache = archiver.health, archiver.shared.cache
    segments, size_bytes = archiver.waiting()
    archived = [entry for one in parts.topics.partitions() for entry in one.log.archive.entries]
    archived_bytes = sum(entry.size_bytes for entry in archived)
    last_success_s = health.last_success_ms / 1000
    yield from _gauges(
        ("archive_reachable", "0 while the archive fails.", health.is_reachable),
        ("archive_waiting_segments", "Closed segments not archived yet.", segments),
        ("archive_waiting_bytes", "Bytes of segments not archived yet.", size_bytes),
        ("archive_segments", "Segments in the archive.", len(archived)),
        ("archive_bytes", "Bytes of segments in the archive.", archived_bytes),
        (
            "archive_last_success_timestamp_seconds",
            "Time of the last success of the archive.",
            last_success_s,
        ),
        ("archive_cache_bytes", "Bytes in the cache.", cache.size_bytes),
    )
    yield from _counters(
        ("archive_failures", "Failures of the archive.", health.failures),
        ("archive_corrupt_reads", "Reads of damaged objects in the archive.", health.corrupt_reads),
        ("archive_copied_segments", "Segments archived.", archiver.copied_segments),
        ("archive_copied_bytes", "Bytes archived.", archiver.copied_bytes),
        ("archive_deleted_segments", "Segments deleted from the archive.", archiver.deleted_segments),
        (
            "archive_local_copies_removed",
            "Local copies of archived segments removed.",
            archiver.local_copies_removed,
        ),
        ("archive_cache_hits", "Pieces read from the cache.", cache.hits),
        ("archive_cache_misses", "Pieces read from the archive.", cache.misses),
    )


async def serve_metrics(
    parts: Parts, housekeeping: Housekeeping, host: str, port: int
) -> tuple[Callable[[], None], int]:
    """Serve /metrics and /health; a function that stops it, and the port."""
    registry = CollectorRegistry()
    registry.register(BrokerCollector(parts, housekeeping))
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
