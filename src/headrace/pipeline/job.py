"""A job: rows that go to a sink, under a name.

Only the declaration is here, and the checks that can be made before anything starts. `supervisor` runs it.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.dead_letters import dead_letter_topic
from headrace.pipeline.graph import plan
from headrace.pipeline.letters.batch import BatchLetters
from headrace.pipeline.letters.dead_letters import DeadLetters
from headrace.pipeline.letters.late_rows import LateRows
from headrace.pipeline.report.registry import BadJob, JobFolder, Registry, check_name
from headrace.pipeline.run import launch
from headrace.pipeline.run.bounded import BoundedRun
from headrace.pipeline.run.checkpoint import Checkpoint
from headrace.pipeline.run.stream import StreamRun
from headrace.pipeline.run.supervisor import RunningJob
from headrace.pipeline.settings import PipelineSettings, data_dir, pipeline_settings
from headrace.pipeline.source.options import without_batch_bound
from headrace.pipeline.spark.session import bootstrap_of
from headrace.values import value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.pipeline.sinks.sink import NativeSink, Sink

BATCH = "batch"
MICRO_BATCH = "micro-batch"
REALTIME = "realtime"
MODES = (BATCH, MICRO_BATCH, REALTIME)
OUTPUT_MODES = ("append", "update", "complete")

INTERVALS = {MICRO_BATCH: "0 seconds", REALTIME: "30 seconds"}
"""Micro-batches follow each other at once. In real-time mode it is how often a checkpoint is written: the more seldom,
the less it costs, and the more is written again after a crash."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Rows to a sink.

        Job("shop-clicks", shop, Topic("shop-clicks", key="user")).start()

    The name is for good: checkpoint, fences in the target and the consumer group `headrace-job-NAME` go by it.

    mode           "micro-batch" (default); "batch" writes what is there and ends; "realtime" hands rows on one by one,
                   where Spark can do that
    interval       pause between the beginnings of micro-batches; in real-time mode, between checkpoints
    output_mode    Spark's: "append", "update" or "complete"; the sink chooses where it is left out
    restarts_max   how many failures in a row are tried again, rather than what the settings say
    checkpoint     a folder for Spark's checkpoint, instead of the one under the data folder
    dead_letters   the topic for records that can't be parsed and rows that the sink refuses, dlq.NAME by default
    """

    name: str
    rows: DataFrame
    sink: Sink
    _: KW_ONLY
    mode: str = MICRO_BATCH
    interval: str | None = None
    output_mode: str | None = None
    restarts_max: int | None = None
    checkpoint: str | Path | None = None
    dead_letters: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.mode not in MODES:
            raise BadJob(
                f"job {self.name}: there is no mode {self.mode!r}", hint=f"one of {', '.join(MODES)}"
            )
        if self.output_mode is not None and self.output_mode not in OUTPUT_MODES:
            raise BadJob(
                f"job {self.name}: there is no output mode {self.output_mode!r}",
                hint=f"one of {', '.join(OUTPUT_MODES)}",
            )
        if self.mode == REALTIME and not self.rows.isStreaming:
            raise BadJob(
                f"job {self.name}: bounded rows can't be handed on in real time", hint='mode="batch"'
            )

    def start(self) -> RunningJob:
        """Begin. Under `headrace job explain` the job is only recorded."""
        prepared = _prepare(self)
        running = RunningJob(prepared, StreamRun(prepared) if self.rows.isStreaming else BoundedRun(prepared))
        launched = launch.launched()
        if launched is not None:
            launched.record(_record(prepared))
        if prepared.launch.explain:
            running.mark_recorded()
            return running
        prepared.folder.take()
        running.begin()
        if launched is not None:
            launched.add(running)
        return running


@value
class Prepared:
    """A job with everything looked up that it needs to run."""

    job: Job
    rows: DataFrame
    plan: plan.Plan
    native: NativeSink | None
    output_mode: str
    trigger: dict[str, Any]
    launch: launch.Launch
    settings: PipelineSettings
    bootstrap: str
    folder: JobFolder
    checkpoint: Checkpoint
    letters: BatchLetters
    late_rows: LateRows

    @property
    def spark(self) -> SparkSession:
        return self.rows.sparkSession


def _prepare(job: Job) -> Prepared:
    spark = job.rows.sparkSession
    launched = launch.current()
    rows = job.sink.prepare(job.rows)
    described = plan.read(rows)
    native = job.sink.native()
    if job.mode == REALTIME:
        _check_realtime(job, rows, native)
        if not launched.once:
            rows = without_batch_bound(rows)
    settings = pipeline_settings()
    if job.restarts_max is not None:
        settings = replace(settings, restarts_max=job.restarts_max)
    folder = Registry(data_dir()).folder(job.name)
    # Reports, offsets and dead letters go to the broker that the records come from.
    of_sources = [source.spec.bootstrap for source in described.sources if source.spec is not None]
    bootstrap = of_sources[0] if of_sources else bootstrap_of(spark)
    checkpoint = Checkpoint(_checkpoint_folder(job, folder))
    late_rows = LateRows(
        job.name,
        described.marks,
        bootstrap=bootstrap,
        checkpoint=checkpoint.folder,
        topic=job.dead_letters,
    )
    if late_rows.topics and native is not None:
        raise BadJob(
            f"job {job.name}: {job.sink.target()} is written by Spark itself, and late rows ({late_rows.topics[0]}) "
            "can't be kept with its batches",
            hint='a sink of Headrace\'s own; for a Topic, guarantee="exactly-once"',
        )
    if len(described.watermark_policies) > 1:
        raise BadJob(
            f"job {job.name} merges sources with different policies, and Spark has one for a whole job",
            hint="the same policy in each Merge, or two jobs with a topic between them",
        )
    return Prepared(
        job=job,
        rows=rows,
        plan=described,
        native=native,
        output_mode=_output_mode(job, described),
        trigger=_trigger(job, launched),
        launch=launched,
        settings=settings,
        bootstrap=bootstrap,
        folder=folder,
        checkpoint=checkpoint,
        late_rows=late_rows,
        letters=BatchLetters(
            DeadLetters(job.name, bootstrap=bootstrap, topic=job.dead_letters), spark, described.sources
        ),
    )


def _output_mode(job: Job, described: plan.Plan) -> str:
    if job.output_mode is not None:
        return job.output_mode
    if job.mode == REALTIME:
        return "update"  # the only one that real-time mode knows
    return job.sink.output_mode(aggregated=described.is_aggregated, watermarked=described.is_watermarked)


def _trigger(job: Job, launched: launch.Launch) -> dict[str, Any]:
    if launched.once or job.mode == BATCH:
        return {"availableNow": True}
    interval = job.interval or INTERVALS[job.mode]
    return {"realTime": interval} if job.mode == REALTIME else {"processingTime": interval}


def _checkpoint_folder(job: Job, folder: JobFolder) -> Path:
    if job.checkpoint is None:
        return folder.checkpoint
    text = str(job.checkpoint).removeprefix("file://")
    if "://" in text:
        raise BadJob(
            f"job {job.name}: the checkpoint {job.checkpoint} is no folder that this machine can reach",
            hint="mount it, and give its path here",
        )
    return Path(text).absolute()


def _check_realtime(job: Job, rows: DataFrame, native: NativeSink | None) -> None:
    obstacles = plan.realtime_obstacles(rows)
    if native is None:
        obstacles.append(
            f"the sink {job.sink.target()}, which writes batch by batch ({job.sink.guarantee}); a Topic with "
            'guarantee="at-least-once" can be written in real time'
        )
    if obstacles:
        raise BadJob(
            f"job {job.name} can't run in real-time mode: {'; '.join(obstacles)} in the way",
            hint='the nearest mode that works is mode="micro-batch"; with interval="0 seconds" (the default) it is as '
            "quick as batches can be",
        )


def _record(prepared: Prepared) -> launch.RecordedJob:
    job = prepared.job
    return launch.RecordedJob(
        name=job.name,
        reads=prepared.plan.reads,
        writes=job.sink.target(),
        dead_letters=_dead_letter_topics(prepared.plan, job.dead_letters or dead_letter_topic(job.name)),
        mode=job.mode,
        output_mode=prepared.output_mode,
        guarantee=job.sink.guarantee,
        steps=tuple(filter(None, (step.in_words() for step in reversed(prepared.plan.steps)))),
    )


def _dead_letter_topics(described: plan.Plan, own: str) -> tuple[str, ...]:
    """The topics of bad records and late rows."""
    topics = [
        source.spec.dead_letters or own
        for source in described.sources
        if source.spec is not None and source.spec.can_have_bad
    ]
    topics += [mark.late_topic or own for mark in described.marks if mark.late_topic is not None]
    return tuple(f"topic {topic}" for topic in dict.fromkeys(topics))
