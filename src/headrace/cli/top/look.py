"""The samples of `headrace top`. If a broker does not respond for a while, the next samples try again."""

from __future__ import annotations

import contextlib
import itertools
import time
from typing import Annotated

import msgspec
from msgspec import Struct

from headrace.cli.output import OutputFormat, Shape, format_time, result
from headrace.cli.top.jobs import ReportedJobs
from headrace.cli.top.panels import (
    GroupsPanel,
    GroupTraffic,
    Panel,
    TopicsPanel,
    TopicTraffic,
    panels_view,
)
from headrace.clock import SystemClock
from headrace.errors import HeadraceError
from headrace.kafka.cluster import Cluster
from headrace.pipeline.report.registry import JobStatus
from headrace.printable import printable_json


@result("top", shape=Shape.LINES)
class Sample(Struct, frozen=True, kw_only=True):
    time: Annotated[str, "ISO 8601 in UTC"]
    problem: Annotated[
        str | None, "why the broker did not respond; the other fields are those of the previous sample"
    ]
    topics: list[TopicTraffic]
    groups: list[GroupTraffic]
    jobs: Annotated[
        list[JobStatus], "those that reported themselves lately, as `headrace job list` shows them"
    ]


def watch(
    cluster: Cluster, *, interval_s: float, count_max: int | None, internal: bool, format: OutputFormat
) -> None:
    clock = SystemClock()
    topics = TopicsPanel(cluster, clock, internal=internal)
    groups = GroupsPanel(cluster, topics, clock, internal=internal)
    jobs = ReportedJobs(cluster, clock)
    panels: list[Panel] = [topics, groups, jobs]

    def print_sample(problem: str) -> None:
        sample = Sample(
            time=format_time(clock.now_ms()),
            problem=problem or None,
            topics=topics.rows,
            groups=groups.rows,
            jobs=jobs.rows,
        )
        print(printable_json(msgspec.to_builtins(sample)), flush=True)

    title = f"broker at {cluster.bootstrap}"
    as_json = contextlib.nullcontext(print_sample) if format == "json" else None
    with contextlib.closing(jobs), as_json or panels_view(panels, title, full=count_max is None) as show:
        for number in itertools.count(1):
            show(_sample(panels, is_first=number == 1))
            if number == count_max:
                return
            time.sleep(interval_s)


def _sample(panels: list[Panel], *, is_first: bool) -> str:
    """Sample all panels; the message of an error. At the first sample an error ends the command."""
    try:
        for panel in panels:
            panel.sample()
    except HeadraceError as error:
        if is_first:
            raise
        return error.message
    return ""
