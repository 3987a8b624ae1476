"""Turns Spark's progress events into the status of a job, records of a topic and offsets of a group.

A slow or unavailable broker does not slow a job down: only the thread of `reporter` waits for it. The first lost report
is logged.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from typing import Any

import msgspec
from confluent_kafka import KafkaException, Producer

from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.errors import RequestFailed
from headrace.pipeline.report.hot_keys import hot_keys
from headrace.pipeline.report.registry import JobStatus
from headrace.pipeline.source.offsets import is_heartbeat, offsets_of
from headrace.pipeline.source.skew import skew_of
from headrace.plan_names import (
    BAD,
    BAD_METRIC,
    CORRECTED,
    LATE,
    LATE_METRIC,
    SKIPPED_METRIC,
    WINDOW_ROWS,
    metric_without_use,
)

logger = logging.getLogger("headrace.pipeline")

JOBS_TOPIC = "headrace.jobs"
GROUP_PREFIX = "headrace-job-"

REPORTS_WAITING_MAX = 10_000
"""Minutes of reports of many jobs while a broker restarts."""

RETENTION_MS = 7 * 24 * 3_600_000
"""Long enough to look back after a weekend."""

CLOSE_TIMEOUT_S = 5.0
REQUEST_TIMEOUT_S = 10.0


def measure(status: JobStatus, progress: Mapping[str, Any], *, now_ms: int) -> JobStatus:
    """The status after a batch, from Spark's progress."""
    operators = progress.get("stateOperators") or []
    skew = skew_of(progress)
    rows, behind = window_rows(progress)
    rows, behind = status.window_rows + rows, status.window_rows_behind + behind
    return msgspec.structs.replace(
        status,
        updated_ms=now_ms,
        batch_id=progress["batchId"],
        rows_in=status.rows_in + progress["numInputRows"],
        rows_per_s=_number(progress.get("processedRowsPerSecond")),
        lag=lag(progress),
        watermark=(progress.get("eventTime") or {}).get("watermark"),
        late_rows=status.late_rows + late_rows(progress),
        left_out_rows=status.left_out_rows + skipped_rows(progress),
        window_rows=rows,
        window_rows_behind=behind,
        completeness=(rows - behind) / rows if rows else None,
        state_rows=sum(each.get("numRowsTotal", 0) for each in operators),
        state_bytes=sum(each.get("memoryUsedBytes", 0) for each in operators),
        bad_rows=status.bad_rows + bad_rows(progress),
        batch_ms=(progress.get("durationMs") or {}).get("triggerExecution", 0),
        skew_ms_p50=skew.ms_p50 if skew else status.skew_ms_p50,
        skew_ms_p95=skew.ms_p95 if skew else status.skew_ms_p95,
        skew_ms_p99=skew.ms_p99 if skew else status.skew_ms_p99,
        hot_keys=hot_keys(progress) or status.hot_keys,
    )


def bad_rows(progress: Mapping[str, Any]) -> int:
    return sum(bad_counts(progress).values())


def _observed(progress: Mapping[str, Any], prefix: str) -> dict[str, Mapping[str, Any]]:
    """The observed metrics whose names have this prefix. All uses of a source count the same records."""
    return {
        metric_without_use(name): metrics
        for name, metrics in (progress.get("observedMetrics") or {}).items()
        if name.startswith(prefix) and isinstance(metrics, Mapping)
    }


def bad_counts(progress: Mapping[str, Any]) -> dict[str, int]:
    """How many records each source could not parse, by the name of its metric."""
    return {name: int(metrics.get(BAD) or 0) for name, metrics in _observed(progress, BAD_METRIC).items()}


def late_rows(progress: Mapping[str, Any]) -> int:
    """Rows dropped as late, by Spark's operators and by Headrace's, which have their own metric."""
    by_spark = [each.get("numRowsDroppedByWatermark", 0) for each in progress.get("stateOperators") or []]
    by_operators = [metrics.get(LATE) or 0 for metrics in _observed(progress, LATE_METRIC).values()]
    return sum(map(int, [*by_spark, *by_operators]))


def skipped_rows(progress: Mapping[str, Any]) -> int:
    """Rows without an event time, or without another value that a window needs."""
    skipped = _observed(progress, SKIPPED_METRIC).values()
    return sum(int(count or 0) for metrics in skipped for count in metrics.values())


def window_rows(progress: Mapping[str, Any]) -> tuple[int, int]:
    """Rows of windows of Headrace's operators, and of them those that arrived after the on-time pane."""
    observed = _observed(progress, LATE_METRIC).values()
    rows = sum(int(each.get(WINDOW_ROWS) or 0) for each in observed)
    behind = sum(int(each.get(CORRECTED) or 0) + int(each.get(LATE) or 0) for each in observed)
    return rows, behind if rows else 0


def lag(progress: Mapping[str, Any]) -> int | None:
    """The lag over all partitions; None if a source is no topic."""
    total = 0
    for source in progress.get("sources") or []:
        if is_heartbeat(source.get("endOffset")):
            continue
        latest, end = offsets_of(source.get("latestOffset")), offsets_of(source.get("endOffset"))
        if not latest:
            return None
        total += sum(
            max(0, offset - end.get(topic, {}).get(partition, 0))
            for topic, offsets in latest.items()
            for partition, offset in offsets.items()
        )
    return total


def processed(progress: Mapping[str, Any]) -> dict[tuple[str, int], int]:
    """Topic and partition → the offset that the job reads next."""
    return {
        (topic, partition): offset
        for source in progress.get("sources") or []
        for topic, offsets in offsets_of(source.get("endOffset")).items()
        for partition, offset in offsets.items()
    }


def record_of(status: JobStatus, progress: Mapping[str, Any] | None) -> dict[str, Any]:
    """The published record: the status, and the durations of the batch. Keys are data, and stay on this machine."""
    record = msgspec.structs.asdict(status)
    del record["hot_keys"]
    record["event"] = "state" if progress is None else "batch"
    if progress is not None:
        record["rows_in_batch"] = progress["numInputRows"]
        record["late_rows_in_batch"] = late_rows(progress)
        record["bad_rows_in_batch"] = bad_rows(progress)
        record["durations_ms"] = progress.get("durationMs") or {}
    return record


def _number(found: Any) -> float:
    """Spark writes "Infinity" and "NaN" for rates of batches that took no time."""
    number = float(found or 0)
    return number if math.isfinite(number) else 0.0


class Outlet:
    """Sends the records of jobs and their committed offsets to one broker."""

    def __init__(self, bootstrap: str) -> None:
        self._cluster = Cluster(bootstrap, timeout_s=REQUEST_TIMEOUT_S)
        self._producer = Producer(
            self._cluster.client_config(
                queue_buffering_max_messages=REPORTS_WAITING_MAX, linger_ms=50, message_timeout_ms=60_000
            )
        )
        self._is_topic_created = False
        self._has_lost = False

    def publish(self, record: Mapping[str, Any]) -> None:
        try:
            self._ensure_topic()
            self._producer.produce(
                JOBS_TOPIC, key=record["name"], value=json.dumps(record), on_delivery=self._delivered
            )
            self._producer.poll(0)
        except (BufferError, KafkaException, RequestFailed) as error:
            self._warn_once(error)

    def commit(self, job: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit the offsets for tools that show lag. The group has no members."""
        try:
            self._cluster.commit(
                f"{GROUP_PREFIX}{job}", {Partition(*place): offset for place, offset in offsets.items()}
            )
        except RequestFailed as error:
            logger.warning("offsets of job %s were not committed: %s", job, error)

    def close(self) -> None:
        self._producer.flush(CLOSE_TIMEOUT_S)

    def _ensure_topic(self) -> None:
        if self._is_topic_created:
            return
        self._cluster.create_topic(
            JOBS_TOPIC, partitions=1, config={"retention.ms": str(RETENTION_MS)}, exist_ok=True
        )
        self._is_topic_created = True

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._warn_once(error)

    def _warn_once(self, error: Any) -> None:
        if not self._has_lost:
            self._has_lost = True
            logger.warning("a report on a job was lost, others may be too: %s", error)
