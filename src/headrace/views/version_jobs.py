"""Runs the jobs of versions until they end, side by side: for a rebuild, which shows progress and may be stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.pipeline.report.registry import ENDS, JobStatus
from headrace.views.catalog import ViewFolder
from headrace.views.errors import BadView
from headrace.views.jobs import job_of, letters_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.kafka.cluster import Cluster
    from headrace.pipeline import RunningJob

LOOK_S = 0.2


class RebuildStopped(HeadraceError):
    """On request, before the switch."""


class BadEvents(BadView):
    """A version has dead letters, and may not."""


class Progress(Struct, frozen=True, kw_only=True):
    step: str
    jobs: tuple[JobStatus, ...] = ()


class VersionJobs:
    def __init__(
        self,
        spark: SparkSession,
        cluster: Cluster,
        *,
        show: Callable[[Progress], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._spark = spark
        self._cluster = cluster
        self.show = show
        self._is_stopping = is_stopping

    def run(
        self,
        versions: Mapping[ViewFolder, int],
        step: str,
        *,
        until: Mapping[ViewFolder, tuple[str, ...]] | None = None,
        skip_bad: bool,
    ) -> None:
        """Until each has read what there is now, or is at these offsets. Also after an error they have ended."""
        started: list[RunningJob] = []
        try:
            for folder, version in versions.items():
                job = job_of(
                    folder.record().versions[version],
                    version,
                    spark=self._spark,
                    cluster=self._cluster,
                    data_dir=folder.data_dir,
                    once=True,
                    until=None if until is None else until[folder],
                )
                started.append(job.start())
            self._follow(versions, started, step, skip_bad=skip_bad)
        finally:
            for each in started:
                each.stop()

    def _follow(
        self,
        versions: Mapping[ViewFolder, int],
        started: Sequence[RunningJob],
        step: str,
        *,
        skip_bad: bool,
    ) -> None:
        while started:
            statuses = tuple(each.status() for each in started)
            self.show(Progress(step=step, jobs=statuses))
            if not skip_bad:
                _check_bad(versions, statuses)
            if all(status.state in ENDS for status in statuses):
                break
            self.check_stop()
            time.sleep(LOOK_S)
        for each in started:
            each.wait()

    def check_stop(self) -> None:
        if self._is_stopping():
            raise RebuildStopped(
                "the rebuild was stopped; the old version is served as before",
                hint="the same command continues it",
            )


def _check_bad(versions: Mapping[ViewFolder, int], statuses: Sequence[JobStatus]) -> None:
    for (folder, version), status in zip(versions.items(), statuses, strict=True):
        if status.dead_letters:
            topic = letters_topic(folder.name, version)
            raise BadEvents(
                f"the rebuild of view {folder.name} found bad events, {status.dead_letters} so far; the old version "
                f"is served as before. They are in the topic {topic}",
                hint=f"`headrace consume {topic} --from-beginning` shows them; --skip-bad rebuilds without them",
            )
