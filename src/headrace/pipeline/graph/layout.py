"""Where the nodes of a graph stand in a picture: in layers from left to right, with few crossings and straight ways.

The usual four steps: take circles apart, give every node a layer, put each layer into an order, give places. Edges
that pass layers go through waypoints there, which are placed like nodes. Nothing is random: the same graph gives the
same picture.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from headrace.pipeline.graph.job_graph import Edge, Graph
from headrace.values import value

ORDER_SWEEPS = 12
"""How often the layers are put into a better order; graphs of some dozen jobs settle after three or four."""

PLACE_SWEEPS = 12
"""How often nodes are drawn towards their neighbours; later sweeps move them by less than can be seen."""


@value
class Size:
    width: float
    height: float


@value
class Place:
    """Of a node: the middle of its left edge, and its size."""

    x: float
    y: float
    size: Size

    @property
    def right(self) -> float:
        return self.x + self.size.width


@value
class Way:
    """Of an edge: the points that it passes, from the node that data leaves to the node where it arrives."""

    edge: Edge
    points: tuple[tuple[float, float], ...]


@value
class Layout:
    width: float
    height: float
    places: Mapping[str, Place]
    ways: tuple[Way, ...]


@value
class Spacing:
    margin: float = 24
    between_layers: float = 56
    between_nodes: float = 18


Chains = dict[Edge, list[str]]
"""For each edge the nodes and waypoints that it passes, in the order of the layers."""


@value
class _Column:
    """The room of one layer: where it begins on the left, and how wide its widest node is."""

    left: float
    width: float


def lay_out(graph: Graph, sizes: Mapping[str, Size], spacing: Spacing | None = None) -> Layout:
    """Give every node of the graph, whose sizes are known by id, its place, and every edge its way."""
    chosen = spacing or Spacing()
    backward = _backward_edges(graph)
    layer_of = _layers(graph, backward)
    chains, layers = _with_waypoints(graph, backward, layer_of)
    neighbours = _neighbours(chains)
    layers = _order(layers, neighbours)
    heights = {name: sizes[name].height if name in sizes else 0.0 for layer in layers for name in layer}
    ys = _place(layers, neighbours, heights, chosen)
    columns = _columns(layers, sizes, chosen)
    places = {
        node.id: Place(x=columns[layer_of[node.id]].left, y=ys[node.id], size=sizes[node.id])
        for node in graph.nodes
    }
    ways = []
    for edge, chain in chains.items():
        points = _points(chain, places, ys, columns[layer_of[chain[0]] + 1 :])
        ways.append(Way(edge=edge, points=points[::-1] if edge in backward else points))
    return Layout(
        width=max((each.left + each.width for each in columns), default=chosen.margin) + chosen.margin,
        height=max((ys[name] + heights[name] / 2 for name in ys), default=chosen.margin) + chosen.margin,
        places=places,
        ways=tuple(ways),
    )


def _columns(layers: Sequence[Sequence[str]], sizes: Mapping[str, Size], spacing: Spacing) -> list[_Column]:
    columns, left = [], spacing.margin
    for layer in layers:
        width = max(sizes[name].width for name in layer if name in sizes)
        columns.append(_Column(left=left, width=width))
        left += width + spacing.between_layers
    return columns


def _backward_edges(graph: Graph) -> set[Edge]:
    """Those that close a circle, as when a job reads what it writes; turned round, they leave none."""
    backward: set[Edge] = set()
    finished: set[str] = set()
    for root in graph.nodes:
        # Depth first with a stack of our own, so that a long chain of jobs is not a deep recursion.
        stack = [(root.id, iter(graph.leaving(root.id)))] if root.id not in finished else []
        on_the_way = {root.id}
        while stack:
            node_id, edges = stack[-1]
            edge = next(edges, None)
            if edge is None:
                stack.pop()
                on_the_way.discard(node_id)
                finished.add(node_id)
            elif edge.target in on_the_way:
                backward.add(edge)
            elif edge.target not in finished:
                on_the_way.add(edge.target)
                stack.append((edge.target, iter(graph.leaving(edge.target))))
    return backward


def _layers(graph: Graph, backward: set[Edge]) -> dict[str, int]:
    """The longest way from a beginning; beginnings stand right before the first that reads them."""
    after: dict[str, list[str]] = defaultdict(list)
    waiting_for = dict.fromkeys((each.id for each in graph.nodes), 0)
    for edge in graph.edges:
        source, target = (edge.target, edge.source) if edge in backward else (edge.source, edge.target)
        after[source].append(target)
        waiting_for[target] += 1
    begins = [name for name, count in waiting_for.items() if count == 0]
    layer_of = dict.fromkeys(begins, 0)
    ready = list(begins)
    while ready:
        name = ready.pop()
        for target in after[name]:
            layer_of[target] = max(layer_of.get(target, 0), layer_of[name] + 1)
            waiting_for[target] -= 1
            if waiting_for[target] == 0:
                ready.append(target)
    for name in begins:
        if after[name]:
            layer_of[name] = min(layer_of[target] for target in after[name]) - 1
    return layer_of


def _with_waypoints(
    graph: Graph, backward: set[Edge], layer_of: dict[str, int]
) -> tuple[Chains, list[list[str]]]:
    layers: list[list[str]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for node in graph.nodes:
        layers[layer_of[node.id]].append(node.id)
    chains: Chains = {}
    for number, edge in enumerate(graph.edges):
        first, last = (edge.target, edge.source) if edge in backward else (edge.source, edge.target)
        chain = [first]
        for layer in range(layer_of[first] + 1, layer_of[last]):
            # No name of a node has a line break in it.
            waypoint = f"\n{number} {layer}"
            layers[layer].append(waypoint)
            chain.append(waypoint)
        chains[edge] = [*chain, last]
    return chains, layers


@value
class _Neighbours:
    before: Mapping[str, list[str]]
    behind: Mapping[str, list[str]]


def _neighbours(chains: Chains) -> _Neighbours:
    before, behind = defaultdict(list), defaultdict(list)
    for chain in chains.values():
        for one, next_one in pairwise(chain):
            before[next_one].append(one)
            behind[one].append(next_one)
    return _Neighbours(before=before, behind=behind)


def _order(layers: list[list[str]], neighbours: _Neighbours) -> list[list[str]]:
    """Each layer by the mean place of its neighbours, forth and back; the order with the fewest crossings is kept."""
    best, best_crossings = layers, _crossings(layers, neighbours)
    current = [list(layer) for layer in layers]
    for sweep in range(ORDER_SWEEPS):
        if best_crossings == 0:
            break
        forth = sweep % 2 == 0
        numbers = range(1, len(current)) if forth else range(len(current) - 2, -1, -1)
        sides = neighbours.before if forth else neighbours.behind
        for number in numbers:
            beside = _ranks(current[number - 1 if forth else number + 1])
            own = _ranks(current[number])
            current[number].sort(key=lambda name: _mean([beside[each] for each in sides[name]], own[name]))
        crossings = _crossings(current, neighbours)
        if crossings < best_crossings:
            best, best_crossings = [list(layer) for layer in current], crossings
    return best


def _crossings(layers: Sequence[Sequence[str]], neighbours: _Neighbours) -> int:
    count = 0
    for layer, behind in pairwise(layers):
        ranks = _ranks(behind)
        edges = [
            (number, ranks[target]) for number, name in enumerate(layer) for target in neighbours.behind[name]
        ]
        count += sum(
            1
            for index, (start, end) in enumerate(edges)
            for other_start, other_end in edges[index + 1 :]
            if (start - other_start) * (end - other_end) < 0
        )
    return count


def _ranks(names: Sequence[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _place(
    layers: Sequence[Sequence[str]],
    neighbours: _Neighbours,
    heights: Mapping[str, float],
    spacing: Spacing,
) -> dict[str, float]:
    """Middles, from the top margin on: each node as near to the mean of its neighbours as the order allows."""
    ys: dict[str, float] = {}
    for layer in layers:
        y = 0.0
        for name in layer:
            ys[name] = y + heights[name] / 2
            y += heights[name] + spacing.between_nodes
    for sweep in range(PLACE_SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = [
                _mean([ys[each] for each in (*neighbours.before[name], *neighbours.behind[name])], ys[name])
                for name in layer
            ]
            distances = [
                (heights[one] + heights[other]) / 2 + spacing.between_nodes for one, other in pairwise(layer)
            ]
            ys.update(zip(layer, keep_apart(wanted, distances), strict=True))
    top = min((y - heights[name] / 2 for name, y in ys.items()), default=0.0)
    return {name: y - top + spacing.margin for name, y in ys.items()}


def keep_apart(wanted: Sequence[float], distances: Sequence[float]) -> list[float]:
    """The places nearest to the wanted ones (by squares) that keep the order and the distances.

    Less the distances, places must only not fall: neighbours that would are pooled at their mean.
    """
    offsets = [0.0]
    for distance in distances:
        offsets.append(offsets[-1] + distance)
    pools: list[tuple[float, int]] = []
    for place, offset in zip(wanted, offsets, strict=True):
        total, count = place - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            before_total, before_count = pools.pop()
            total, count = total + before_total, count + before_count
        pools.append((total, count))
    means = [total / count for total, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _points(
    chain: Sequence[str], places: Mapping[str, Place], ys: Mapping[str, float], columns: Sequence[_Column]
) -> tuple[tuple[float, float], ...]:
    """From the first node to the last; `columns` begin behind the first."""
    first, last = places[chain[0]], places[chain[-1]]
    points = [(first.right, first.y)]
    for name, column in zip(chain[1:-1], columns, strict=False):
        # Straight through the layer, so that it does not cut the nodes above and below.
        points += [(column.left, ys[name]), (column.left + column.width, ys[name])]
    return (*points, (last.x, last.y))
