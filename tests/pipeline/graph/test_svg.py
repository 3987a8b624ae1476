"""The picture: well-formed, with every node and edge in it, whatever the names are."""

from __future__ import annotations

from xml.etree import ElementTree

from headrace.pipeline.graph.job_graph import GraphJob, graph_of
from headrace.pipeline.graph.svg import draw_svg

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return ["".join(each.itertext()) for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_every_node_is_named_and_every_edge_has_an_arrow() -> None:
    jobs = [
        GraphJob(
            name="shop", reads=("topic clicks",), writes="topic shop", dead_letters=("topic clicks.dead",)
        ),
        GraphJob(name="counts", reads=("topic shop",), writes="table counts", about=("micro-batch",)),
    ]
    svg = draw_svg(graph_of(jobs))

    assert {"clicks", "shop", "counts", "clicks.dead", "job, micro-batch"} <= set(texts(svg))
    arrows = [each for each in ElementTree.fromstring(svg).iter(f"{SVG}path") if each.get("marker-end")]
    assert len(arrows) == 5
    assert sum(each.get("marker-end") == "url(#dead-tip)" for each in arrows) == 1


def test_names_are_text_and_never_markup() -> None:
    job = GraphJob(name="<script>&\"'", reads=("topic a<b",), writes="table x&y")

    assert {"<script>&\"'", "a<b", "x&y"} <= set(texts(draw_svg(graph_of([job]))))


def test_no_jobs_are_an_empty_picture() -> None:
    assert texts(draw_svg(graph_of([]))) == []
