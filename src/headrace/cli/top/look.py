"""The samples of `headrace top`: take one, show it, wait, and continue if a broker does not answer for a while."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable
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
    is_terminal,
    live_screen,
    print_lines,
)
from headrace.clock import SystemClock
from headrace.errors import HeadraceError
from headrace.kafka.cluster import Cluster
from headrace.pipeline.report.registry import JobStatus
from headrace.printable import printable_json


@result("top", shape=Shape.LINES)
class Look(Struct, frozen=True, kw_only=True):
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

    def print_look(problem: str) -> None:
        look = Look(
            time=format_time(clock.now_ms()),
            problem=problem or None,
            topics=topics.rows,
            groups=groups.rows,
            jobs=jobs.rows,
        )
        print(printable_json(msgspec.to_builtins(look)), flush=True)

    with contextlib.ExitStack() as stack:
        stack.callback(jobs.close)
        show: Callable[[str], None]
        title = f"broker at {cluster.bootstrap}"
        if format is OutputFormat.JSON:
            show = print_look
        else:
            draw = live_screen(stack, title, full=count_max is None) if is_terminal() else print_lines(title)
            show = lambda problem: draw(panels, problem)  # noqa: E731
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
