"""The committed reference pages are what the code says now."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def load_pages() -> dict[str, Callable[[], str]]:
    spec = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages: dict[str, Callable[[], str]] = module.PAGES
    return pages


PAGES = load_pages()


@pytest.mark.parametrize("name", PAGES)
def test_reference_page_is_current(name: str) -> None:
    committed = (DOCS / "reference" / name).read_text()
    assert committed == PAGES[name](), "`make docs-reference` writes it anew"
