"""A job: rows that go to a sink, under a name.

This module has the declaration, the checks before a start, and the parts that a job is started with. `run` runs it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from headrace.clock import SystemClock
from headrace.dead_letters import dead_letter_topic
from headrace.errors import HeadraceError
from headrace.pipeline import launch
from headrace.pipeline.addresses import normal
from headrace.pipeline.answering.answer_thread import Answering
from headrace.pipeline.answering.declaration import declared_answers
from headrace.pipeline.answering.state_partitions import StatePartitions
from headrace.pipeline.checkpoint import Checkpoint
from headrace.pipeline.errors import BadJob
from headrace.pipeline.graph import plan as plans
from headrace.pipeline.graph.append_plan import for_append
from headrace.pipeline.graph.job_graph import RecordedJob, graph_of
from headrace.pipeline.graph.mermaid import mime_bundle
from headrace.pipeline.graph.plan import Plan
from headrace.pipeline.letters.dead_letters import DeadLetters
from headrace.pipeline.letters.late_rows import LateRows
from headrace.pipeline.report.registry import JobFolder, JobState, JobStatus, Registry, check_name, lock_of
from headrace.pipeline.run.bounded import BoundedRun
from headrace.pipeline.run.launched import LaunchedJobs, add_direct, launched_jobs
from headrace.pipeline.run.stream import StreamRun
from headrace.pipeline.run.supervisor import Run, RunningJob
from headrace.pipeline.settings import pipeline_settings
from headrace.pipeline.sinks.sink import OutputMode, with_nullable_fields
from headrace.pipeline.source.options import without_batch_options
from headrace.pipeline.spark.session import bootstrap_of, data_address, local_cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.pipeline.sinks.sink import Sink

Mode = Literal["batch", "micro-batch", "realtime"]

INTERVALS: Mapping[Mode, str] = {"micro-batch": "0 seconds", "realtime": "30 seconds"}
"""Micro-batches follow each other without a pause. In real-time mode it is the interval of checkpoints: a longer one
costs less, and replays more after a crash."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Rows to a sink.

        Job("shop-clicks", shop, Topic("shop-clicks", key="user")).start()

    Do not change the name: checkpoint, fences in the target and the consumer group `headrace-job-NAME` depend on it.

    mode           "micro-batch" (default); "batch" processes the records that exist and ends; "realtime" processes rows
                   one by one, if Spark supports it for the job
    interval       between the starts of micro-batches; in real-time mode, between checkpoints
    output_mode    Spark's: "append", "update" or "complete"; by default the sink chooses
    restarts_max   how many failures in a row are retried, instead of the setting
    checkpoint     a folder for Spark's checkpoint, instead of the one in the data folder, or an address that Spark
                   reaches, such as hdfs://… or s3a://…
    dead_letters   the topic for records that can't be parsed and rows that the sink rejects, dlq.NAME by default
    until          the job ends at these offsets: a text for each source, as in a fence
    answers        classes that `@answers` decorates: what the job answers from its state; with them, or with an
                   empty list, it also answers `state.NAME`
    """

    name: str
    rows: DataFrame
    sink: Sink
    _: KW_ONLY
    mode: Mode = "micro-batch"
    interval: str | None = None
    output_mode: OutputMode | None = None
    restarts_max: int | None = None
    checkpoint: str | Path | None = None
    dead_letters: str | None = None
    until: tuple[str, ...] | None = None
    answers: Sequence[type[Any]] | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.mode not in get_args(Mode):
            raise BadJob(
                f"job {self.name}: there is no mode {self.mode!r}", hint=f"one of {', '.join(get_args(Mode))}"
            )
        if self.output_mode is not None and self.output_mode not in get_args(OutputMode):
            raise BadJob(
                f"job {self.name}: there is no output mode {self.output_mode!r}",
                hint=f"one of {', '.join(get_args(OutputMode))}",
            )
        if self.mode == "realtime" and not self.rows.isStreaming:
            raise BadJob(
                f"job {self.name}: bounded rows can't be processed in real time", hint='mode="batch"'
            )
        if self.answers is not None:
            declared_answers(self.name, self.answers)
            if self.mode == "realtime" or not self.rows.isStreaming:
                raise BadJob(
                    f"job {self.name}: only micro-batches of a stream have a state to answer from",
                    hint="remove answers=, or read topics as streams",
                )

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """The graph of the job, at the end of a notebook cell."""
        with launch.using(msgspec.structs.replace(launch.current(), explain=True)):  # nothing is registered
            plan = plans.read(self.sink.prepare(self.rows))
        return mime_bundle(graph_of([_record(self, plan, _output_mode(self, plan))]))

    def start(self) -> RunningJob:
        """Start the job, which runs beside the program: `wait_for_jobs()` at the end of a script waits for its jobs.

        Under `headrace job explain` the job is only recorded.
        """
        options, launched = launch.current(), launched_jobs()
        started = _running(self, options, launched)
        if options.explain:
            started.mark_recorded()
            return started
        started.start()
        if launched is None:
            add_direct(started)
        else:
            launched.started.append(started)
        return started


def _running(job: Job, options: launch.Launch, launched: LaunchedJobs | None) -> RunningJob:
    """The job with everything that it needs to run, not yet started."""
    rows = with_nullable_fields(job.sink.prepare(job.rows))
    plan = plans.read(rows)
    if job.mode == "realtime":
        _check_realtime(job, rows)
        if not options.once:
            rows = without_batch_options(rows)
    output_mode = _output_mode(job, plan)
    if rows.isStreaming and output_mode == "append" and job.mode != "realtime":
        before, rows = rows, for_append(rows)
        plan = plan if rows is before else plans.read(rows)
    # Reports, offsets and dead letters go to the broker that the records come from.
    of_sources = [source.spec.bootstrap for source in plan.sources if source.spec is not None]
    bootstrap = of_sources[0] if of_sources else bootstrap_of(rows.sparkSession)
    folder = Registry(data_address()).folder(job.name)
    checkpoint = folder.checkpoint() if job.checkpoint is None else Checkpoint(normal(job.checkpoint))
    letters = DeadLetters(
        job.name,
        plan.sources,
        spark=rows.sparkSession,
        bootstrap=bootstrap,
        topic=job.dead_letters,
        checkpoint=checkpoint.folder,
    )
    late_rows = LateRows(letters, plan.marks, checkpoint=checkpoint.folder.path)
    _check_plan(job, plan, late_rows)
    _check_lags(job, plan, output_mode)
    answering = None
    if job.answers is not None:
        answering = Answering(
            job.name,
            declared_answers(job.name, job.answers),
            StatePartitions(
                rows.sparkSession,
                checkpoint,
                plan.marks,
                is_local=local_cores(rows.sparkSession.conf.get("spark.master") or "") is not None,
            ),
            bootstrap=bootstrap,
        )
    if launched is not None:
        launched.recorded.append(_record(job, plan, output_mode))
    run: Run
    if rows.isStreaming:
        run = StreamRun(
            rows,
            job.sink,
            plan=plan,
            folder=folder,
            checkpoint=checkpoint,
            letters=letters,
            late_rows=late_rows,
            output_mode=output_mode,
            trigger=_trigger(job, options),
            is_rebuild=options.rebuild,
            until=job.until,
            answering=answering,
        )
    else:
        run = BoundedRun(rows, job.sink, checkpoint=checkpoint, letters=letters, is_rebuild=options.rebuild)
    settings = pipeline_settings()
    if job.restarts_max is not None:
        settings = replace(settings, restarts_max=job.restarts_max)
    now_ms = SystemClock().now_ms()
    return RunningJob(
        JobStatus(
            **_of_last_batch(folder),
            name=job.name,
            state=JobState.STARTING,
            pid=os.getpid(),
            mode=job.mode,
            sources=plan.reads,
            target=job.sink.target(),
            guarantee=job.sink.guarantee,
            dead_letter_topics=tuple(
                dict.fromkeys((*_dead_letter_topics(plan, letters.topic), letters.topic))
            ),
            bootstrap=bootstrap,
            checkpoint_folder=checkpoint.folder.address if rows.isStreaming else "",
            started_ms=now_ms,
            updated_ms=now_ms,
        ),
        run,
        folder=folder,
        checkpoint_lock=lock_of(checkpoint, folder) if rows.isStreaming else None,
        settings=settings,
        # Only a launch that ends runs its jobs one after the other.
        upstream=launched.writers_of(plan.reads) if launched is not None and options.once else (),
    )


def _of_last_batch(folder: JobFolder) -> dict[str, Any]:
    """What stays true until the next batch is committed, also if the job fails before."""
    try:
        before = folder.read()
    except HeadraceError:  # it is damaged, and written again
        before = None
    fields = ("checkpoint", "batch_id", "watermark", "state_rows", "state_bytes")
    return {} if before is None else {field: getattr(before, field) for field in fields}


def _check_plan(job: Job, plan: Plan, late_rows: LateRows) -> None:
    if late_rows.topics and job.sink.native() is not None:
        raise BadJob(
            f"job {job.name}: {job.sink.target()} is written by Spark itself, and late rows ({late_rows.topics[0]}) "
            "can't be kept with its batches",
            hint='a sink of Headrace\'s own; for a Topic, guarantee="exactly-once"',
        )
    if job.answers is not None and not plan.is_stateful:
        raise BadJob(
            f"job {job.name} has no stateful operator to answer from",
            hint="remove answers=, or aggregate or join the rows",
        )
    if len(plan.watermark_policies) > 1:
        raise BadJob(
            f"job {job.name} merges sources with different policies, and Spark has one for a whole job",
            hint="the same policy in each Merge, or two jobs with a topic between them",
        )


def _check_lags(job: Job, plan: Plan, output_mode: OutputMode) -> None:
    """In the mode `complete` Spark drops no row."""
    if plan.lagging and output_mode != "complete":
        step = plan.lagging[0]
        raise BadJob(
            f"job {job.name}: Spark would drop rows as late in `{step.detail}`, because an operator before it emits "
            f"them up to {step.lag_us / 1e6:g} s after the watermark",
            hint="use an operator, which waits for them, such as op.Tumbling, op.Session or op.GroupChanges; or apply "
            "that step first",
        )


def _output_mode(job: Job, plan: Plan) -> OutputMode:
    if job.output_mode is not None:
        return job.output_mode
    if job.mode == "realtime":
        return "update"  # the only one that real-time mode supports
    return job.sink.output_mode(aggregated=plan.is_aggregated, watermarked=plan.is_watermarked)


def _trigger(job: Job, options: launch.Launch) -> dict[str, Any]:
    if options.once or job.mode == "batch":
        return {"availableNow": True}
    interval = job.interval or INTERVALS[job.mode]
    return {"realTime": interval} if job.mode == "realtime" else {"processingTime": interval}


def _check_realtime(job: Job, rows: DataFrame) -> None:
    obstacles = plans.realtime_obstacles(rows)
    if job.sink.native() is None:
        obstacles.append(
            f"the sink {job.sink.target()}, which writes batch by batch ({job.sink.guarantee}); a Topic with "
            'guarantee="at-least-once" can be written in real time'
        )
    if obstacles:
        raise BadJob(
            f"job {job.name} can't run in real-time mode because of {'; '.join(obstacles)}",
            hint='the nearest mode that works is mode="micro-batch"; with interval="0 seconds" (the default) it is as '
            "fast as batches can be",
        )


def _record(job: Job, plan: Plan, output_mode: str) -> RecordedJob:
    return RecordedJob(
        name=job.name,
        reads=plan.reads,
        writes=job.sink.target(),
        dead_letters=tuple(
            f"topic {topic}"
            for topic in _dead_letter_topics(plan, job.dead_letters or dead_letter_topic(job.name))
        ),
        mode=job.mode,
        output_mode=output_mode,
        guarantee=job.sink.guarantee,
        steps=tuple(filter(None, (step.in_words() for step in reversed(plan.steps)))),
    )


def _dead_letter_topics(plan: Plan, own: str) -> tuple[str, ...]:
    """The topics of bad records and late rows."""
    specs = [source.spec or source.files for source in plan.sources]
    topics = [spec.dead_letters or own for spec in specs if spec is not None and spec.can_have_bad]
    topics += [mark.late_topic or own for mark in plan.marks if mark.late_topic is not None]
    return tuple(dict.fromkeys(topics))
