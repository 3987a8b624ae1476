"""The committed reference pages are what the code says now."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def load(name: str) -> ModuleType:
    """A script beside the pages; docs/ is no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES: dict[str, Callable[[], str]] = load("make_reference").PAGES


@pytest.mark.parametrize("name", PAGES)
def test_reference_page_is_current(name: str) -> None:
    committed = (DOCS / "reference" / name).read_text()
    assert committed == PAGES[name](), "`make docs-reference` writes it anew"


def test_picture_of_the_log_is_what_its_script_draws() -> None:
    module = load("draw_log")
    assert module.PICTURE.read_text() == module.draw(), "`python docs/draw_log.py` draws it anew"
