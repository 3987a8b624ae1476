"""The committed reference pages agree with the code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.docs.scripts import DOCS, load

PAGES: dict[str, Callable[[], str]] = load("make_reference").PAGES


@pytest.mark.parametrize("name", PAGES)
def test_reference_page_is_current(name: str) -> None:
    committed = (DOCS / "reference" / name).read_text()
    assert committed == PAGES[name](), "run `make docs-reference`"


def test_picture_of_the_log_is_what_its_script_draws() -> None:
    module = load("draw_log")
    assert module.PICTURE.read_text() == module.draw(), "run `python docs/draw_log.py`"
