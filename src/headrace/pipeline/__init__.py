"""Jobs on Spark: topics in, sinks out, each micro-batch once.

    from headrace.pipeline import Job, read_topic, session, wait_for_jobs
    from headrace.pipeline.sinks import Topic

    spark = session("shop")
    clicks = read_topic(spark, "clicks", schema="user STRING, url STRING, at TIMESTAMP")
    Job("shop-clicks", clicks.where("url LIKE '%/shop/%'"), Topic("shop-clicks", key="user")).start()
    wait_for_jobs()

A job restarts after failures and continues at its checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.exports import lazy_exports

if TYPE_CHECKING:
    from headrace.pipeline.answering.declaration import answers
    from headrace.pipeline.errors import BadJob, BadSink, BadSource, JobFailed, SinkUnavailable
    from headrace.pipeline.fence import Fence
    from headrace.pipeline.job import Job, Mode
    from headrace.pipeline.report.registry import JobState, JobStatus
    from headrace.pipeline.run.launched import wait_for_jobs
    from headrace.pipeline.run.supervisor import RunningJob
    from headrace.pipeline.sinks.spark_formats import register_formats
    from headrace.pipeline.source.files_spec import FileFormat
    from headrace.pipeline.source.positions import Position
    from headrace.pipeline.source.read_files import read_files
    from headrace.pipeline.source.read_topic import KeyFormat, Pattern, read_topic
    from headrace.pipeline.source.spec import Format
    from headrace.pipeline.spark.session import connector_jars, session
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "answering.declaration": ("answers",),
            "errors": ("BadJob", "BadSink", "BadSource", "JobFailed", "SinkUnavailable"),
            "fence": ("Fence",),
            "job": ("Job", "Mode"),
            "report.registry": ("JobState", "JobStatus"),
            "run.launched": ("wait_for_jobs",),
            "run.supervisor": ("RunningJob",),
            "sinks.spark_formats": ("register_formats",),
            "source.files_spec": ("FileFormat",),
            "source.positions": ("Position",),
            "source.read_files": ("read_files",),
            "source.read_topic": ("KeyFormat", "Pattern", "read_topic"),
            "source.spec": ("Format",),
            "spark.session": ("connector_jars", "session"),
        },
    )

__all__ = [
    "BadJob",
    "BadSink",
    "BadSource",
    "Fence",
    "FileFormat",
    "Format",
    "Job",
    "JobFailed",
    "JobState",
    "JobStatus",
    "KeyFormat",
    "Mode",
    "Pattern",
    "Position",
    "RunningJob",
    "SinkUnavailable",
    "answers",
    "connector_jars",
    "read_files",
    "read_topic",
    "register_formats",
    "session",
    "wait_for_jobs",
]
