"""Every snippet of every page runs, and prints the output on the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.page_runner import PageRunner
from tests.docs.snippets import LANGUAGES_RUN, BadPage, read_blocks

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
USES_SPARK = re.compile(r"\b(?:session|read_topic)\(")
SLOW_PAGES = ("views.md", "view-sql.md", "late-rows.md")
"""They start Spark several times. Other pages, and the tests of their subjects, run what they show."""


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def has_something_to_run(page: Path) -> bool:
    try:
        return any(block.language in LANGUAGES_RUN for block in read_blocks(page.read_text()))
    except BadPage:
        return True  # its own test fails with the problem


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(each, id=named(each), marks=[pytest.mark.slow] if each.name in SLOW_PAGES else [])
        for each in PAGES
        if has_something_to_run(each)
    ],
)
def test_snippets_of_page_run(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    text = page.read_text()
    # `session()` of a page returns the one that all tests of this worker share.
    spark = request.getfixturevalue("spark") if USES_SPARK.search(text) else None
    with PageRunner(text, name=named(page), folder=tmp_path) as runner:
        runner.run()
    assert spark is None or not spark.sparkContext._jsc.sc().isStopped(), (
        "the page stops the session of the tests"
    )
