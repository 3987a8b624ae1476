"""The graph of jobs, and of the topics and stores between them, and its text for a terminal.

Pure, without Spark: a job is what it reads and writes. `mermaid` draws the same graph as a picture.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from headrace.pipeline.errors import BadJob

PATTERN_KIND = "topics"
"""The first word of a source that is a pattern, such as `topics clicks\\..*`."""


class RecordedJob(Struct, frozen=True, kw_only=True):
    """A declared job in words: what `headrace job explain` draws.

    A store is its kind and its name, as in `topic clicks` or `table clicks_by_url`.
    """

    name: str
    reads: tuple[str, ...]
    writes: str
    dead_letters: tuple[str, ...] = ()
    mode: str = ""
    output_mode: str = ""
    guarantee: str = ""
    steps: tuple[str, ...] = ()


class EdgeKind(StrEnum):
    READS = "reads"
    WRITES = "writes"
    DEAD_LETTERS = "dead letters"
    MATCHES = "matches"


class Node(Struct, frozen=True, kw_only=True):
    kind: str
    name: str
    about: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.kind} {self.name}"


class Edge(Struct, frozen=True, kw_only=True):
    """From the node that data leaves to the node where it arrives, by their ids."""

    source: str
    target: str
    kind: EdgeKind


class Graph(Struct, frozen=True, kw_only=True):
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def node(self, node_id: str) -> Node:
        return next(each for each in self.nodes if each.id == node_id)

    def leaving(self, node_id: str) -> list[Edge]:
        return [each for each in self.edges if each.source == node_id]

    def arriving(self, node_id: str) -> list[Edge]:
        return [each for each in self.edges if each.target == node_id]


def graph_of(jobs: Sequence[RecordedJob]) -> Graph:
    """A job that reads what another writes is connected to it. Nodes keep the order of the jobs."""
    nodes: dict[str, Node] = {}
    edges: dict[Edge, None] = {}

    def store(text: str) -> str:
        kind, _, name = text.partition(" ")
        return nodes.setdefault(text, Node(kind=kind, name=name)).id

    for job in jobs:
        node = Node(kind="job", name=job.name, about=tuple(filter(None, (job.mode, job.guarantee))))
        for source in job.reads:
            edges[Edge(source=store(source), target=node.id, kind=EdgeKind.READS)] = None
        if node.id in nodes:
            raise BadJob(f"two jobs are called {job.name}", hint="a job's name is its checkpoint: rename one")
        nodes[node.id] = node
        edges[Edge(source=node.id, target=store(job.writes), kind=EdgeKind.WRITES)] = None
        for letters in job.dead_letters:
            edges[Edge(source=node.id, target=store(letters), kind=EdgeKind.DEAD_LETTERS)] = None
    edges |= dict.fromkeys(_matches(tuple(nodes.values())))
    return Graph(nodes=tuple(nodes.values()), edges=tuple(edges))


def _matches(nodes: Sequence[Node]) -> Iterator[Edge]:
    """A job that reads a pattern reads the topics of other jobs that match it."""
    for pattern in nodes:
        if pattern.kind != PATTERN_KIND:
            continue
        for topic in nodes:
            if topic.kind == "topic" and _is_match(pattern.name, topic.name):
                yield Edge(source=topic.id, target=pattern.id, kind=EdgeKind.MATCHES)


def _is_match(pattern: str, topic: str) -> bool:
    try:
        return re.fullmatch(pattern, topic) is not None
    except re.error:
        return False  # Java has more syntax for patterns than Python: the edge is not drawn then


_EDGE_WORDS = {EdgeKind.DEAD_LETTERS: "dead letters", EdgeKind.MATCHES: "one of"}


def draw_text(graph: Graph) -> str:
    """The graph as trees, one for each store that no job here writes. Each node is drawn once."""
    drawn: set[str] = set()
    lines: list[str] = []
    roots = [each.id for each in graph.nodes if not graph.arriving(each.id)]
    # Nodes that no root reaches are part of a cycle: any of them can be the root.
    for root in (*roots, *(each.id for each in graph.nodes)):
        if root not in drawn:
            lines.append(_label(graph.node(root)))
            lines += _below(graph, root, drawn)
    return "\n".join(lines)


def _below(graph: Graph, node_id: str, drawn: set[str]) -> Iterator[str]:
    drawn.add(node_id)
    edges = graph.leaving(node_id)
    for edge in edges:
        is_last = edge is edges[-1]
        target = graph.node(edge.target)
        is_again = target.id in drawn
        words = _EDGE_WORDS.get(edge.kind)
        notes = [f"({words})"] if words else []
        notes += ["(above)"] if is_again and graph.leaving(target.id) else _also_reads(graph, edge)
        yield " ".join([f"{'└' if is_last else '├'}─▶", _label(target), *notes])
        if not is_again:
            for line in _below(graph, target.id, drawn):
                yield f"{' ' if is_last else '│'}   {line}"


def _also_reads(graph: Graph, edge: Edge) -> list[str]:
    """A job with several sources is drawn below the first, which names the others."""
    if edge.kind is not EdgeKind.READS:
        return []
    others = [each.source for each in graph.arriving(edge.target) if each.source != edge.source]
    return [f"(also reads {', '.join(others)})"] if others else []


def _label(node: Node) -> str:
    return f"{node.id}: {', '.join(node.about)}" if node.about else node.id
