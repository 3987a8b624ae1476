"""The jobs of a cluster, as they report themselves to their topic: for `headrace top`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, TopicPartition

from headrace.cli.job.screen import render_jobs, summary_of
from headrace.cli.records.consume_output import plain_bytes
from headrace.clock import Clock
from headrace.kafka.cluster import Cluster
from headrace.pipeline.report.progress import JOBS_TOPIC
from headrace.pipeline.report.registry import JobStatus

if TYPE_CHECKING:
    from rich.console import RenderableType

SEEN_MS_MAX = 15 * 60_000
"""A running job reports itself at least every ten seconds; one without a report in this time is not shown."""

REPORTS_MAX = 10_000
"""Records that are read at a time, at most."""


class ReportedJobs:
    """A panel of the jobs that reported themselves lately."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._jobs: dict[str, JobStatus] = {}
        self._consumer: Consumer | None = None
        self._unread: set[int | None] = set()
        """Partitions that were not read to their end yet: the first sample waits for them."""

    @property
    def rows(self) -> list[JobStatus]:
        oldest_ms = self._clock.now_ms() - SEEN_MS_MAX
        return [job for _, job in sorted(self._jobs.items()) if job.updated_ms >= oldest_ms]

    def sample(self) -> None:
        consumer = self._consumer or self._open()
        if consumer is None:
            return
        self._consumer = consumer
        deadline_s = time.monotonic() + self._cluster.timeout_s
        while True:
            messages = consumer.consume(REPORTS_MAX, timeout=0.05)
            for message in messages:
                error = message.error()
                if error is None:
                    self._add(plain_bytes(message.value()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._unread.discard(message.partition())
            is_read = not self._unread or time.monotonic() > deadline_s
            if is_read and len(messages) < REPORTS_MAX:
                return

    def _open(self) -> Consumer | None:
        if JOBS_TOPIC not in self._cluster.topics():
            return None
        partitions = self._cluster.partitions(JOBS_TOPIC)
        starts = self._cluster.at_time(partitions, self._clock.now_ms() - SEEN_MS_MAX)
        consumer = Consumer(
            self._cluster.client_config(
                group_id="headrace-top", enable_auto_commit=False, enable_partition_eof=True
            )
        )
        self._unread = {each.number for each in partitions}
        consumer.assign([TopicPartition(each.topic, each.number, starts[each]) for each in partitions])
        return consumer

    def _add(self, value: bytes) -> None:
        try:
            job = JobStatus.from_json(value.decode())
        except (ValueError, KeyError, TypeError, AttributeError):
            return  # other programs may write to the topic
        self._jobs[job.name] = job

    def render(self, rows_max: int) -> RenderableType:
        from rich.text import Text

        return (
            render_jobs(self.rows[:rows_max]) if self.rows else Text("no jobs report themselves", style="dim")
        )

    def summary(self) -> str:
        return "; ".join(f"{job.name} {summary_of(job)}" for job in self.rows)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
