"""The public packages: what the docs and the examples name is there, and a type checker sees the types of it."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Broker, HeadraceError
from headrace import operators as op
from headrace.pipeline.sinks import Delta, Each, Table, Topic
from headrace.queue import Queue

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "headrace",
    "headrace.cdc.outbox",
    "headrace.edges",
    "headrace.edges.direct",
    "headrace.erasure",
    "headrace.events",
    "headrace.gateway.registry",
    "headrace.operators",
    "headrace.pipeline",
    "headrace.pipeline.sinks",
    "headrace.questions",
    "headrace.queue",
    "headrace.shredding",
    "headrace.testing",
    "headrace.views",
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))

_PYTHON = re.compile(r"^```python.*?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DOTTED = re.compile(
    r"`(headrace\.(?:edges|erasure|events|operators|pipeline|questions|queue|shredding|testing|views)\b[\w.]*)"
)


def is_public(name: str) -> bool:
    """Whether a dotted name is a public package, or in `__all__` of one."""
    package, _, last = name.rpartition(".")
    return name in PACKAGES or (package in PACKAGES and last in importlib.import_module(package).__all__)


def imports_of(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)


def names_of(path: Path) -> Iterator[str]:
    """The names of Headrace that a page or a program uses."""
    text = path.read_text()
    if path.suffix == ".py":
        yield from imports_of(text)
        return
    for code in _PYTHON.findall(text):
        yield from imports_of(code)
    yield from _DOTTED.findall(text)


@pytest.mark.parametrize("path", [*PAGES, *EXAMPLES], ids=lambda path: str(path.relative_to(ROOT)))
def test_page_and_example_use_public_names_only(path: Path) -> None:
    used = {name for name in names_of(path) if name.split(".")[0] == "headrace"}
    assert {name for name in used if not is_public(name)} == set()


def test_names_are_found_in_pages_and_examples() -> None:
    used = {name for path in (*PAGES, *EXAMPLES) for name in names_of(path)}
    assert used >= {"headrace.Broker", "headrace.operators.read_state", "headrace.queue.DeadLetters"}


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_resolve_and_are_listed(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("package", PACKAGES)
def test_name_that_is_missing_is_an_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Missing'"):
        _ = importlib.import_module(package).Missing


# If one of these arguments were typed as a plain `str`, mypy would report its `type: ignore` as unused.
@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Broker(durability="never"),  # type: ignore[arg-type]
        lambda: Delta("a", mode="merge"),  # type: ignore[arg-type]
        lambda: Each(print, per="table"),  # type: ignore[arg-type]
        lambda: Table("t", key="id", mode="merge"),  # type: ignore[arg-type]
        lambda: Table("t", key="id", merge={"n": "avg"}),  # type: ignore[dict-item]
        lambda: Topic("t", format="xml"),  # type: ignore[arg-type]
        lambda: Topic("t", guarantee="none"),  # type: ignore[arg-type]
        lambda: Topic("t", compression="zip"),  # type: ignore[arg-type]
        lambda: op.Merge(policy="mean"),  # type: ignore[arg-type]
        lambda: op.Trigger(panes="some"),  # type: ignore[arg-type]
        lambda: Queue("t", group="g", start="now"),  # type: ignore[arg-type]
    ],
)
def test_unknown_value_is_an_error_of_the_type_and_at_run_time(wrong: Callable[[], Any]) -> None:
    with pytest.raises(HeadraceError):
        wrong()
