"""The Mermaid flowchart: it has every node and every edge, and names are never syntax."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.graph.job_graph import EdgeKind, Graph, RecordedJob, graph_of
from headrace.pipeline.graph.mermaid import draw_mermaid
from tests.docs.mermaid import mermaid_errors

NODE = re.compile(
    r' {4}(?P<id>n\d+)(?P<open>\[|\(\[|\[\()"(?P<label>(?:[\w ./,-]|#\d+;|<br/>)+)"(?P<close>\]|\]\)|\)\])'
)
EDGE = re.compile(
    r" {4}(?P<source>n\d+) (?P<arrow>-->|-\. dead letters \.->|-\. one of \.->) (?P<target>n\d+)"
)
SHAPES = {"[": "]", "([": "])", "[(": ")]"}
ARROWS = {
    "-->": {EdgeKind.READS, EdgeKind.WRITES},
    "-. dead letters .->": {EdgeKind.DEAD_LETTERS},
    "-. one of .->": {EdgeKind.MATCHES},
}
NASTY = (
    '"]', "end", "`x`", "%% x", "<script>&\"'", "a#quot;b", "x --> y", "\n", ";", "click x", "{{x}}", "&lt;"
)  # fmt: skip

names = st.text(min_size=1, max_size=12) | st.sampled_from(NASTY)
topics = st.builds("topic {}".format, names)
stores = st.builds("{} {}".format, st.sampled_from(["topic", "table", "topics"]), names)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any jobs: joins, cycles, several writers, patterns, and parts that are not connected."""
    return graph_of(
        [
            RecordedJob(
                name=name,
                reads=tuple(draw(st.lists(stores, min_size=1, max_size=3, unique=True))),
                writes=draw(stores),
                dead_letters=tuple(draw(st.lists(topics, max_size=2, unique=True))),
                mode="micro-batch",
                guarantee="at-least-once",
            )
            for name in draw(st.lists(names, max_size=6, unique=True))
        ]
    )


def shown(label: str) -> list[str]:
    """The lines of a label as a reader sees them."""
    return [re.sub(r"#(\d+);", lambda code: chr(int(code[1])), line) for line in label.split("<br/>")]


@given(graphs())
def test_every_node_and_every_edge_is_drawn_under_its_own_name(graph: Graph) -> None:
    first, *lines = draw_mermaid(graph).removesuffix("\n").split("\n")
    assert first == "flowchart LR"
    node_lines, edge_lines = lines[: len(graph.nodes)], lines[len(graph.nodes) :]

    ids = {}
    for node, line in zip(graph.nodes, node_lines, strict=True):
        found = NODE.fullmatch(line)
        assert found is not None, line
        assert found["close"] == SHAPES[found["open"]]
        assert shown(found["label"]) == [node.name, ", ".join((node.kind, *node.about))]
        ids[found["id"]] = node.id
    assert len(ids) == len(graph.nodes)
    for edge, line in zip(graph.edges, edge_lines, strict=True):
        found = EDGE.fullmatch(line)
        assert found is not None, line
        assert (ids[found["source"]], ids[found["target"]]) == (edge.source, edge.target)
        assert edge.kind in ARROWS[found["arrow"]]


def test_jobs_topics_and_stores_have_different_shapes() -> None:
    job = RecordedJob(name="counts", reads=("topic clicks",), writes="table counts", mode="micro-batch")

    assert draw_mermaid(graph_of([job])).splitlines() == [
        "flowchart LR",
        '    n0(["clicks<br/>topic"])',
        '    n1["counts<br/>job, micro-batch"]',
        '    n2[("counts<br/>table")]',
        "    n0 --> n1",
        "    n1 --> n2",
    ]


def test_no_jobs_are_an_empty_flowchart() -> None:
    assert draw_mermaid(graph_of([])) == "flowchart LR\n"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_mermaid_itself_parses_the_flowchart_whatever_the_names_are() -> None:
    jobs = [
        RecordedJob(
            name=f"job {name}",
            reads=(f"topic {name}", "topics .*"),
            writes=f"table {name}",
            dead_letters=(f"topic {name}.dead",),
            mode="micro-batch",
            guarantee=name,
        )
        for name in NASTY
    ]

    assert mermaid_errors([draw_mermaid(graph_of(jobs)), draw_mermaid(graph_of([]))]) == [None, None]
