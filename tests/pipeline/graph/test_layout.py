"""The layout: nothing lies over anything else, data flows to the right, and few lines cross."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.graph.job_graph import Graph, GraphJob, graph_of
from headrace.pipeline.graph.layout import Layout, Size, keep_apart, lay_out

names = st.sampled_from(["a", "b", "c", "d", "e"])
stores = st.builds("{} {}".format, st.sampled_from(["topic", "table"]), names)
topics = st.builds("topic {}".format, names)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any jobs on a few topics and tables: joins, circles, several writers and parts that do not touch."""
    count = draw(st.integers(0, 7))
    return graph_of(
        [
            GraphJob(
                name=f"job-{number}",
                reads=tuple(draw(st.lists(topics, min_size=1, max_size=3, unique=True))),
                writes=draw(stores),
            )
            for number in range(count)
        ]
    )


def laid_out(graph: Graph) -> Layout:
    return lay_out(graph, {each.id: Size(width=40 + 7 * len(each.name), height=50) for each in graph.nodes})


@given(graphs())
def test_no_node_lies_over_another_and_all_are_inside(graph: Graph) -> None:
    layout = laid_out(graph)

    assert layout.places.keys() == {each.id for each in graph.nodes}
    for place in layout.places.values():
        assert 0 < place.x < place.right < layout.width
        assert 0 < place.y - place.size.height / 2 < place.y + place.size.height / 2 < layout.height
    for one, other in combinations(layout.places.values(), 2):
        is_beside = one.right < other.x or other.right < one.x
        assert is_beside or abs(one.y - other.y) >= (one.size.height + other.size.height) / 2


@given(graphs())
def test_every_edge_has_a_way_between_its_nodes(graph: Graph) -> None:
    layout = laid_out(graph)

    assert [each.edge for each in layout.ways] == list(graph.edges)
    for way in layout.ways:
        source, target = layout.places[way.edge.source], layout.places[way.edge.target]
        assert way.points[0] in ((source.right, source.y), (source.x, source.y))
        assert way.points[-1] in ((target.right, target.y), (target.x, target.y))


@given(graphs())
def test_the_same_graph_gives_the_same_layout(graph: Graph) -> None:
    assert laid_out(graph) == laid_out(graph)


def test_data_flows_to_the_right_where_there_is_no_circle() -> None:
    jobs = [
        GraphJob(name="first", reads=("topic a", "topic b"), writes="topic c"),
        GraphJob(name="second", reads=("topic c", "topic a"), writes="table d"),
    ]
    layout = laid_out(graph_of(jobs))

    for way in layout.ways:
        assert all(x < next_x for (x, _), (next_x, _) in pairwise(way.points))


def test_source_that_is_read_late_stands_right_before_its_reader() -> None:
    jobs = [
        GraphJob(name="first", reads=("topic a",), writes="topic b"),
        GraphJob(name="second", reads=("topic b", "topic late"), writes="table c"),
    ]
    layout = laid_out(graph_of(jobs))

    assert layout.places["topic late"].x == layout.places["topic b"].x


def test_lines_that_need_not_cross_do_not() -> None:
    jobs = [
        GraphJob(name="one", reads=("topic a",), writes="table z"),
        GraphJob(name="two", reads=("topic b",), writes="table y"),
        GraphJob(name="three", reads=("topic a",), writes="table y"),
    ]
    layout = laid_out(graph_of([jobs[0], jobs[1], jobs[2]]))

    steps = [(way.points[0], way.points[-1]) for way in layout.ways]
    crossings = [
        (one, other)
        for one, other in combinations(steps, 2)
        if one[0][0] == other[0][0] and (one[0][1] - other[0][1]) * (one[1][1] - other[1][1]) < 0
    ]
    assert crossings == []


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(1, 20)), min_size=1, max_size=8))
def test_places_keep_their_distance_and_move_no_further_than_they_must(
    pairs: list[tuple[float, float]],
) -> None:
    wanted, distances = [each for each, _ in pairs], [each for _, each in pairs[:-1]]
    placed = keep_apart(wanted, distances)

    for (one, other), distance in zip(pairwise(placed), distances, strict=True):
        assert other - one >= distance - 1e-6
    if all(b - a >= d for (a, b), d in zip(pairwise(wanted), distances, strict=True)):
        assert placed == wanted or all(abs(a - b) < 1e-6 for a, b in zip(placed, wanted, strict=True))
