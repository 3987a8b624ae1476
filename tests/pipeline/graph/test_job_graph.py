"""The graph of jobs: chains are found, and each node is drawn once."""

from __future__ import annotations

import pytest

from headrace.pipeline.errors import BadJob
from headrace.pipeline.graph.job_graph import EdgeKind, RecordedJob, draw_text, graph_of

SHOP = RecordedJob(
    name="shop-clicks", reads=("topic clicks",), writes="topic shop-clicks", mode="micro-batch"
)
COUNTS = RecordedJob(name="counts", reads=("topic shop-clicks",), writes="table clicks_by_url")
ARCHIVE = RecordedJob(name="archive", reads=("topic clicks",), writes="delta clicks")


def test_job_is_drawn_below_the_job_whose_output_it_reads() -> None:
    assert draw_text(graph_of([SHOP, COUNTS, ARCHIVE])).splitlines() == [
        "topic clicks",
        "├─▶ job shop-clicks: micro-batch",
        "│   └─▶ topic shop-clicks",
        "│       └─▶ job counts",
        "│           └─▶ table clicks_by_url",
        "└─▶ job archive",
        "    └─▶ delta clicks",
    ]


def test_chain_is_found_whatever_the_order_of_the_jobs() -> None:
    drawn = draw_text(graph_of([COUNTS, SHOP]))

    assert drawn.splitlines()[0] == "topic clicks"
    assert drawn.count("topic shop-clicks") == 1


def test_job_of_two_sources_is_drawn_once_and_names_the_other() -> None:
    join = RecordedJob(name="join", reads=("topic searches", "topic clicks"), writes="topic pairs")

    assert draw_text(graph_of([join])).splitlines() == [
        "topic searches",
        "└─▶ job join (also reads topic clicks)",
        "    └─▶ topic pairs",
        "topic clicks",
        "└─▶ job join (above)",
    ]


def test_two_jobs_may_write_one_table() -> None:
    other = RecordedJob(name="other", reads=("topic orders",), writes="table clicks_by_url")
    graph = graph_of([COUNTS, other])

    writers = [each.source for each in graph.arriving("table clicks_by_url")]
    assert writers == ["job counts", "job other"]


def test_dead_letters_are_marked_in_the_graph() -> None:
    job = RecordedJob(name="j", reads=("topic a",), writes="topic b", dead_letters=("topic dlq.j",))

    assert "└─▶ topic dlq.j (dead letters)" in draw_text(graph_of([job]))


def test_pattern_is_connected_to_the_topics_that_match_it() -> None:
    writers = [
        RecordedJob(name=each, reads=("topic in",), writes=f"topic {each}") for each in ("a.eu", "b.eu")
    ]
    reader = RecordedJob(name="all", reads=(r"topics a\..*",), writes="table all")
    graph = graph_of([*writers, reader])

    matched = [each.source for each in graph.edges if each.kind is EdgeKind.MATCHES]
    assert matched == ["topic a.eu"]


def test_pattern_that_only_java_can_compile_is_drawn_without_its_topics() -> None:
    reader = RecordedJob(name="all", reads=(r"topics \Qa.\E[a-z]++",), writes="table all")
    feeder = RecordedJob(name="feeder", reads=("topic in",), writes="topic a")

    assert "job all" in draw_text(graph_of([reader, feeder]))


def test_cycle_is_drawn_once() -> None:
    one = RecordedJob(name="one", reads=("topic a",), writes="topic b")
    two = RecordedJob(name="two", reads=("topic b",), writes="topic a")

    assert draw_text(graph_of([one, two])).splitlines() == [
        "topic a",
        "└─▶ job one",
        "    └─▶ topic b",
        "        └─▶ job two",
        "            └─▶ topic a (above)",
    ]


def test_two_jobs_of_one_name_are_rejected() -> None:
    with pytest.raises(BadJob, match="two jobs are called counts"):
        graph_of([COUNTS, COUNTS])


def test_graph_without_jobs_is_empty() -> None:
    assert draw_text(graph_of([])) == ""
