"""The graph of jobs as a Mermaid flowchart, which Git hosts, notebooks and the documentation site draw.

Names are data: every character that Mermaid could read as syntax is written as an entity.
"""

from __future__ import annotations

from headrace.pipeline.graph.job_graph import EdgeKind, Graph, Node, draw_text

_PLAIN = frozenset(" _.,/-")
"""What a label may contain besides letters and digits."""

_ARROWS = {
    EdgeKind.READS: "-->",
    EdgeKind.WRITES: "-->",
    EdgeKind.DEAD_LETTERS: "-. dead letters .->",
    EdgeKind.MATCHES: "-. one of .->",
}


def draw_mermaid(graph: Graph) -> str:
    """The nodes in the order of the graph, then its edges. Jobs are boxes, topics are rounded, stores are cylinders."""
    ids = {node.id: f"n{number}" for number, node in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    lines += [f"    {ids[node.id]}{_shape(node)}" for node in graph.nodes]
    lines += [f"    {ids[edge.source]} {_ARROWS[edge.kind]} {ids[edge.target]}" for edge in graph.edges]
    return "\n".join(lines) + "\n"


def mime_bundle(graph: Graph) -> dict[str, str]:
    """The graph for a notebook, which shows the richest of these formats that it supports."""
    flowchart = draw_mermaid(graph)
    return {
        "text/plain": draw_text(graph),
        "text/markdown": f"```mermaid\n{flowchart}```",
        "text/vnd.mermaid": flowchart,
    }


def _shape(node: Node) -> str:
    small = ", ".join((node.kind, *node.about))
    label = f'"{_escape(node.name)}<br/>{_escape(small)}"'
    if node.kind == "job":
        return f"[{label}]"
    return f"([{label}])" if node.kind.startswith("topic") else f"[({label})]"


def _escape(text: str) -> str:
    return "".join(each if each.isalnum() or each in _PLAIN else f"#{ord(each)};" for each in text)
