"""The job of a version: its name, its start, and the deletion of what it leaves.

Versions share nothing: checkpoint, fence, consumer group and dead letters have the job's name.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.dead_letters import dead_letter_topic
from headrace.kafka.errors import RequestFailed
from headrace.pipeline.checkpoint import Checkpoint
from headrace.pipeline.report.progress import GROUP_PREFIX
from headrace.pipeline.report.registry import Registry
from headrace.views.definition import Definition
from headrace.views.rows import view_rows
from headrace.views.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.kafka.cluster import Cluster
    from headrace.pipeline import Job


def job_name(view: str, version: int) -> str:
    return f"view.{view}.{version}"


def letters_topic(view: str, version: int) -> str:
    return dead_letter_topic(job_name(view, version))


def checkpoint_of(view: str, version: int, data_dir: Path) -> Checkpoint:
    return Registry(data_dir).folder(job_name(view, version)).checkpoint()


def ends_of(view: str, version: int, data_dir: Path) -> tuple[str, ...]:
    """Where a version is: the end offsets of its last committed batch, as in a fence; empty before the first."""
    checkpoint = checkpoint_of(view, version, data_dir)
    committed = checkpoint.committed_batch()
    return () if committed is None else checkpoint.ends(committed)


def job_of(
    definition: Definition,
    version: int,
    *,
    spark: SparkSession,
    cluster: Cluster,
    data_dir: Path,
    once: bool,
    until: tuple[str, ...] | None = None,
) -> Job:
    """The job that writes a version; `once` for one that ends when it has read what is there at its start, and `until`
    for one that ends at these offsets."""
    from headrace.pipeline import Job

    store = open_store(definition, data_dir)
    try:
        sink = store.sink(version)
    finally:
        store.close()
    return Job(
        job_name(definition.name, version),
        view_rows(definition, spark, cluster),
        sink,
        mode="batch" if once else "micro-batch",
        until=until,
    )


def delete_job(view: str, version: int, *, cluster: Cluster | None, data_dir: Path) -> None:
    """Delete checkpoint, status and committed offsets. Dead letters stay. Succeeds if they are gone already."""
    name = job_name(view, version)
    shutil.rmtree(Registry(data_dir).folder(name).path, ignore_errors=True)
    if cluster is not None:
        # If it fails: the broker expires the offsets of a group without members.
        with contextlib.suppress(RequestFailed):
            cluster.delete_groups([f"{GROUP_PREFIX}{name}"], missing_ok=True)
