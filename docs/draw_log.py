"""Draws docs/explanation/log.svg: a partition, its segments, the content of a segment, and compaction.

python docs/draw_log.py
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

PICTURE = Path(__file__).parent / "explanation" / "log.svg"
WIDTH, HEIGHT = 960, 820
LEFT = 40
CELL = 56
INK, FAINT, PAPER = "#1f2933", "#7b8794", "#ffffff"
DELETED, CLOSED, ACTIVE, MARK = "#eef1f4", "#d6e4f0", "#ffe3b3", "#2f6f9f"
# The records of the partition that is drawn; the first offset of each segment; what retention has deleted.
END_OFFSET = 14
SEGMENT_STARTS = (0, 4, 8, 12)
START_OFFSET = 4


class Picture:
    def __init__(self) -> None:
        self._parts: list[str] = []

    def box(
        self, x: float, y: float, width: float, height: float, fill: str, *, dashed: bool = False
    ) -> None:
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3" '
            f'fill="{fill}" stroke="{FAINT}"{dash}/>'
        )

    def text(
        self, x: float, y: float, text: str, *, size: int = 14, fill: str = INK, anchor: str = "start",
        mono: bool = False, bold: bool = False,
    ) -> None:  # fmt: skip
        family = (
            "ui-monospace, Menlo, Consolas, monospace" if mono else "system-ui, Helvetica, Arial, sans-serif"
        )
        weight = ' font-weight="600"' if bold else ""
        self._parts.append(
            f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
            f'font-family="{family}"{weight}>{escape(text)}</text>'
        )

    def line(
        self, x1: float, y1: float, x2: float, y2: float, *, arrow: bool = False, dashed: bool = False
    ) -> None:
        end = ' marker-end="url(#tip)"' if arrow else ""
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self._parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{MARK if arrow else FAINT}" '
            f'stroke-width="1.5"{end}{dash}/>'
        )

    def heading(self, y: float, title: str, words: str) -> None:
        self.text(LEFT, y, title, size=17, bold=True)
        self.text(LEFT, y + 20, words, fill=FAINT)

    def svg(self) -> str:
        body = "\n".join(self._parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
            f'height="{HEIGHT}" role="img" aria-label="How a partition of the log is stored">\n'
            f'<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" fill="{MARK}"/></marker></defs>\n'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{PAPER}"/>\n{body}\n</svg>\n'
        )


def segment_fill(offset: int) -> str:
    if offset < START_OFFSET:
        return DELETED
    return ACTIVE if offset >= SEGMENT_STARTS[-1] else CLOSED


def draw_partition(picture: Picture, y: float) -> None:
    picture.heading(
        y, "A partition", "Records in the order of their append. The offset of a record never changes."
    )
    row = y + 76
    for offset in range(END_OFFSET):
        is_deleted = offset < START_OFFSET
        picture.box(LEFT + offset * CELL, row, CELL, 36, segment_fill(offset), dashed=is_deleted)
        picture.text(
            LEFT + (offset + 0.5) * CELL, row + 23, str(offset), anchor="middle", mono=True,
            fill=FAINT if is_deleted else INK,
        )  # fmt: skip
    end = LEFT + END_OFFSET * CELL
    picture.line(end + 70, row + 18, end + 4, row + 18, arrow=True)
    picture.text(end + 8, row + 8, "producers", fill=MARK)
    for offset, group in ((6, "group audit is here"), (11, "group billing is here")):
        x = LEFT + (offset + 0.5) * CELL
        picture.line(x, row - 16, x, row - 2, arrow=True)
        picture.text(x, row - 21, group, anchor="middle", fill=MARK)
    picture.text(LEFT + 2 * CELL, row - 8, "deleted (retention)", anchor="middle", fill=FAINT)
    picture.text(LEFT + START_OFFSET * CELL, row + 54, "start offset 4", fill=FAINT, size=13)
    picture.text(end, row + 54, f"end offset {END_OFFSET}", fill=FAINT, size=13, anchor="end")


def draw_segments(picture: Picture, y: float) -> None:
    picture.heading(
        y,
        "Its segments",
        "Files named after their first offset. Only the last is written; retention deletes whole files.",
    )
    row = y + 40
    for start, end in zip(SEGMENT_STARTS, (*SEGMENT_STARTS[1:], END_OFFSET), strict=True):
        x, width = LEFT + start * CELL, (end - start) * CELL
        is_deleted, is_active = start < START_OFFSET, start == SEGMENT_STARTS[-1]
        picture.box(
            x + 3, row, width - 6 + (108 if is_active else 0), 62, segment_fill(start), dashed=is_deleted
        )
        state = "deleted" if is_deleted else "active" if is_active else "closed"
        picture.text(
            x + 13, row + 25, f"{start:020d}.log", mono=True, size=13, fill=FAINT if is_deleted else INK
        )
        picture.text(x + 13, row + 47, state, size=13, fill=FAINT)


def draw_files(picture: Picture, y: float) -> None:
    picture.heading(
        y,
        "Inside one",
        "Batches, stored as the bytes that the producer sent. Two small indexes give the position for a read.",
    )
    row = y + 62
    picture.text(LEFT, row + 24, ".log", mono=True)
    batches = [(0, 300, "batch: offsets 4 and 5"), (300, 170, "batch: 6"), (470, 250, "batch: 7")]
    for position, width, label in batches:
        picture.box(LEFT + 110 + position, row, width - 4, 38, CLOSED)
        picture.text(LEFT + 120 + position, row + 24, label)
    for position, words in ((0, "byte 0"), (300, "byte 4210"), (470, "byte 6120")):
        picture.text(LEFT + 110 + position, row - 6, words, mono=True, size=12, fill=FAINT)
    # By offset: the entry below leads to the byte above it.
    index_row = row + 84
    picture.text(LEFT, index_row + 21, ".index", mono=True)
    picture.box(LEFT + 110 + 230, index_row, 240, 32, PAPER)
    picture.text(LEFT + 122 + 230, index_row + 21, "offset 6 → byte 4210", mono=True, size=13)
    picture.line(LEFT + 110 + 302, index_row - 2, LEFT + 110 + 302, row + 42, arrow=True)
    time_row = index_row + 50
    picture.text(LEFT, time_row + 21, ".timeindex", mono=True)
    picture.box(LEFT + 110 + 230, time_row, 240, 32, PAPER)
    picture.text(LEFT + 122 + 230, time_row + 21, "10:30:00.000 → offset 6", mono=True, size=13)
    picture.line(LEFT + 110 + 302, time_row - 2, LEFT + 110 + 302, index_row + 35, arrow=True)
    picture.text(LEFT + 110 + 490, index_row + 21, "an entry every 4 KB of log:", fill=FAINT, size=13)
    picture.text(
        LEFT + 110 + 490, index_row + 39, "find the nearest, read on from there", fill=FAINT, size=13
    )


def draw_compaction(picture: Picture, y: float) -> None:
    picture.heading(
        y,
        "Compaction",
        "The last value of every key is kept, at its offset. A tombstone (∅) deletes a key.",
    )
    records = [("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("b", "∅"), ("a", "3")]
    kept = {3, 5}
    for number, (title, shown) in enumerate((("before", set(range(len(records)))), ("after", kept))):
        row = y + 40 + number * 54
        picture.text(LEFT, row + 25, title, fill=FAINT)
        for offset, (key, value) in enumerate(records):
            x = LEFT + 110 + offset * 110
            is_there = offset in shown
            picture.box(x, row, 104, 38, CLOSED if is_there else PAPER, dashed=not is_there)
            words = f"{offset}  {key} = {value}" if is_there else str(offset)
            picture.text(x + 12, row + 24, words, mono=True, fill=INK if is_there else FAINT)


def draw() -> str:
    picture = Picture()
    draw_partition(picture, 40)
    draw_segments(picture, 218)
    draw_files(picture, 374)
    draw_compaction(picture, 656)
    return picture.svg()


if __name__ == "__main__":
    PICTURE.write_text(draw())
