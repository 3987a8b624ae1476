"""A graph of jobs as a picture: topics as pipes, jobs as boxes, tables and other stores as drums."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from headrace.pipeline.graph.job_graph import Edge, EdgeKind, Graph, Node
from headrace.pipeline.graph.layout import Layout, Place, Size, Way, lay_out
from headrace.values import value

FONT = "system-ui, Helvetica, Arial, sans-serif"
NAME_SIZE, SMALL_SIZE = 14, 11
# Without a font at hand the width of a text is estimated; a little too wide is better than text over the edge.
NAME_CHARACTER_WIDTH, SMALL_CHARACTER_WIDTH = 8.0, 6.4
PADDING = 16
DRUM_RIM = 6
"""Half the height of the ellipse at the top of a drum, and of the one at the side of a pipe its width."""


@value
class Colours:
    ink: str = "#1f2933"
    faint: str = "#7b8794"
    paper: str = "#ffffff"
    topic: str = "#d6e4f0"
    job: str = "#ffe3b3"
    store: str = "#d9ead3"
    edge: str = "#2f6f9f"
    dead: str = "#a94442"


COLOURS = Colours()


def draw_svg(graph: Graph) -> str:
    """The picture, in a file's worth of text. Words beside a node's name are its kind and what it says of itself."""
    layout = lay_out(graph, {each.id: _size(each) for each in graph.nodes})
    parts = [_way(each) for each in layout.ways]
    parts += [_node(each, layout.places[each.id]) for each in graph.nodes]
    return _page(layout, "\n".join(parts))


def _small_text(node: Node) -> str:
    return ", ".join((node.kind, *node.about))


def _size(node: Node) -> Size:
    text_width = max(len(node.name) * NAME_CHARACTER_WIDTH, len(_small_text(node)) * SMALL_CHARACTER_WIDTH)
    return Size(width=round(text_width + 2 * PADDING), height=52)


def _page(layout: Layout, body: str) -> str:
    width, height = round(layout.width), round(layout.height)
    markers = "".join(
        f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="{colour}"/></marker>'
        for name, colour in (("tip", COLOURS.edge), ("dead-tip", COLOURS.dead))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="Jobs, and what they read and write">\n'
        f"<defs>{markers}</defs>\n"
        f'<rect width="{width}" height="{height}" fill="{COLOURS.paper}"/>\n{body}\n</svg>\n'
    )


def _node(node: Node, place: Place) -> str:
    x, y = place.x, place.y - place.size.height / 2
    width, height = place.size.width, place.size.height
    if node.kind == "job":
        shape = _box(x, y, width, height)
    elif node.kind.startswith("topic"):
        shape = _pipe(x, y, width, height)
    else:
        shape = _drum(x, y, width, height)
    middle = x + width / 2
    return (
        f"<g><title>{escape(node.id)}</title>{shape}"
        f"{_text(middle, place.y + 1, node.name, NAME_SIZE, COLOURS.ink)}"
        f"{_text(middle, place.y + 17, _small_text(node), SMALL_SIZE, COLOURS.faint)}</g>"
    )


def _text(x: float, y: float, text: str, size: int, fill: str) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-family={quoteattr(FONT)} font-size="{size}" fill="{fill}" '
        f'text-anchor="middle">{escape(text)}</text>'
    )


def _box(x: float, y: float, width: float, height: float) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" '
        f'fill="{COLOURS.job}" stroke="{COLOURS.faint}"/>'
    )


def _pipe(x: float, y: float, width: float, height: float) -> str:
    """Lying: records go in on the left and come out on the right."""
    rim, half = DRUM_RIM, height / 2
    right = x + width - rim
    return (
        f'<path d="M{x + rim:g} {y:g} L{right:g} {y:g} A{rim} {half:g} 0 0 1 {right:g} {y + height:g} '
        f'L{x + rim:g} {y + height:g} A{rim} {half:g} 0 0 1 {x + rim:g} {y:g} z" '
        f'fill="{COLOURS.topic}" stroke="{COLOURS.faint}"/>'
        f'<path d="M{right:g} {y:g} A{rim} {half:g} 0 0 0 {right:g} {y + height:g}" '
        f'fill="none" stroke="{COLOURS.faint}"/>'
    )


def _drum(x: float, y: float, width: float, height: float) -> str:
    """Standing: rows are kept in it."""
    rim, half = DRUM_RIM, width / 2
    bottom = y + height - rim
    return (
        f'<path d="M{x:g} {y + rim:g} L{x:g} {bottom:g} A{half:g} {rim} 0 0 0 {x + width:g} {bottom:g} '
        f'L{x + width:g} {y + rim:g} A{half:g} {rim} 0 0 0 {x:g} {y + rim:g} z" '
        f'fill="{COLOURS.store}" stroke="{COLOURS.faint}"/>'
        f'<path d="M{x:g} {y + rim:g} A{half:g} {rim} 0 0 0 {x + width:g} {y + rim:g}" '
        f'fill="none" stroke="{COLOURS.faint}"/>'
    )


def _way(way: Way) -> str:
    """Straight through layers, bent between them."""
    (x, y), *rest = way.points
    steps = [f"M{x:g} {y:g}"]
    for next_x, next_y in rest:
        bend = (x + next_x) / 2
        steps.append(f"C{bend:g} {y:g} {bend:g} {next_y:g} {next_x:g} {next_y:g}")
        x, y = next_x, next_y
    return f'<path d="{" ".join(steps)}" fill="none" stroke-width="1.5" {_stroke(way.edge)}/>'


def _stroke(edge: Edge) -> str:
    if edge.kind is EdgeKind.DEAD_LETTERS:
        return f'stroke="{COLOURS.dead}" stroke-dasharray="5 4" marker-end="url(#dead-tip)"'
    dashes = ' stroke-dasharray="2 3"' if edge.kind is EdgeKind.MATCHES else ""
    return f'stroke="{COLOURS.edge}"{dashes} marker-end="url(#tip)"'
