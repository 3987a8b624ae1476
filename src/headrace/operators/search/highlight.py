"""Highlights: the parts of a document's text in which a query found its words, with these words marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

from headrace.operators.search.analysis import spans
from headrace.operators.search.document import Document
from headrace.operators.search.evaluate import places
from headrace.operators.search.query import Kind, Node

FRAGMENT_CHARS = 100
"""The length of a fragment without its marks, if its words are not longer."""
PLACES_MAX = 1_000
"""Places that are looked at, of the many that a common word has in a long text."""

Span = tuple[int, int]


class Highlight(Struct, frozen=True):
    column: str
    text: str


def highlights(node: Node, document: Document, *, count: int, mark: Sequence[str]) -> list[Highlight]:
    """At most `count` fragments of the document, in the order of its columns. `mark` is put around each found word."""
    found: dict[int, list[Span]] = {}
    for field, first, end in islice(places(node, document), PLACES_MAX):
        if document.kind(field) is Kind.TEXT:
            found.setdefault(field, []).append((first, end))
    made: list[Highlight] = []
    for field in sorted(found):
        text = document.text(field)
        for fragment in _fragments(text, _marked(text, found[field])):
            if len(made) == count:
                return made
            made.append(Highlight(document.name(field), _with_marks(text, fragment, mark)))
    return made


def _marked(text: str, numbers: Sequence[Span]) -> list[Span]:
    """The characters of these words, in order; overlapping ones as one."""
    last = max(end for _, end in numbers)
    characters = [(start, end) for _, start, end in islice(spans(text), last)]
    marked: list[Span] = []
    for first, end in sorted(set(numbers)):
        start, stop = characters[first][0], characters[end - 1][1]
        if marked and start <= marked[-1][1]:
            marked[-1] = (marked[-1][0], max(stop, marked[-1][1]))
        else:
            marked.append((start, stop))
    return marked


def _fragments(text: str, marked: Sequence[Span]) -> Iterator[tuple[Span, list[Span]]]:
    """Parts of the text that begin and end between words, each with the marked words in it."""
    place = 0
    while place < len(marked):
        start, end = marked[place]
        first = place
        while place < len(marked) and marked[place][1] <= max(start + FRAGMENT_CHARS, end):
            end = marked[place][1]
            place += 1
        before = max(FRAGMENT_CHARS - (end - start), 0) // 2
        yield (
            (_word_start(text, start - before, start), _word_end(text, end + before, end)),
            list(marked[first:place]),
        )


def _word_start(text: str, place: int, latest: int) -> int:
    if place <= 0:
        return 0
    space = text.find(" ", place - 1, latest)
    return space + 1 if space >= 0 else latest


def _word_end(text: str, place: int, earliest: int) -> int:
    if place >= len(text):
        return len(text)
    space = text.rfind(" ", earliest, place + 1)
    return space if space >= 0 else earliest


def _with_marks(text: str, fragment: tuple[Span, list[Span]], mark: Sequence[str]) -> str:
    (start, end), marked = fragment
    parts = []
    for first, last in marked:
        parts += [text[start:first], mark[0], text[first:last], mark[1]]
        start = last
    return "".join([*parts, text[start:end]]).strip()
