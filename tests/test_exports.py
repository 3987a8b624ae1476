"""Public names are imported at first use, and listed without an import."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

PACKAGE = """
from headrace.exports import lazy_exports
__getattr__, __dir__ = lazy_exports(__name__, {"quick": ("one", "two"), "broken": ("three",)})
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    folder = tmp_path / "lazy_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "quick.py").write_text("one, two = 1, 2")
    (folder / "broken.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    import lazy_package  # type: ignore[import-not-found]

    yield lazy_package
    for name in [name for name in sys.modules if name.partition(".")[0] == "lazy_package"]:
        del sys.modules[name]


def test_name_is_imported_at_first_use_and_kept(package: ModuleType) -> None:
    assert "lazy_package.quick" not in sys.modules
    assert package.one == 1
    assert vars(package)["one"] == 1
    assert "two" not in vars(package)


def test_all_names_are_listed_without_an_import(package: ModuleType) -> None:
    assert {"one", "two", "three"} <= {*dir(package)}
    assert "lazy_package.broken" not in sys.modules


def test_unknown_name_is_an_attribute_error_as_of_any_module(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match="module 'lazy_package' has no attribute 'four'"):
        _ = package.four


def test_error_of_the_module_is_not_hidden(package: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="imported"):
        _ = package.three
