"""Links between pages resolve to a file and to its heading, as a Git host names headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]

_LINK = re.compile(r"\[[^\]]*\]\((?!\w+:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]*))?\)")
_FENCED = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)[^`]+\1")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings: lower case, without punctuation, spaces as hyphens, numbered if repeated."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCED.sub("", page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        number, anchor = 0, slug
        while anchor in found:
            number += 1
            anchor = f"{slug}-{number}"
        found.add(anchor)
    return found


def dead_links(path: Path, page: str) -> list[str]:
    dead = []
    for link in _LINK.finditer(_CODE.sub("", _FENCED.sub("", page))):
        target = (path.parent / link["path"]) if link["path"] else path
        is_dead = not target.exists()
        if not is_dead and link["anchor"] is not None:
            is_dead = target.suffix != ".md" or link["anchor"] not in anchors(target.read_text())
        if is_dead:
            dead.append(link[0])
    return dead


@pytest.mark.parametrize("path", PAGES, ids=lambda each: each.relative_to(ROOT).as_posix())
def test_links_of_page_resolve(path: Path) -> None:
    assert dead_links(path, path.read_text()) == []


def test_link_to_missing_file_or_heading_is_dead(tmp_path: Path) -> None:
    other = tmp_path / "other.md"
    other.write_text("# One\n\n## What's `two`, exactly?\n\n## Again\n\n## Again\n\n```\n# no heading\n```\n")
    alive = "[a](other.md) [b](other.md#whats-two-exactly) [c](other.md#again-1) [d](#own) `[no](link.md)`"
    dead = "[e](missing.md) [f](other.md#three) [g](other.md#no-heading) [h](#missing) ![i](missing.svg)"
    page = f"# Own\n\n{alive}\n\n```\n[no](link.md)\n```\n\n{dead}\n"
    path = tmp_path / "page.md"
    path.write_text(page)

    assert dead_links(path, page) == [each.lstrip("!") for each in dead.split()]
