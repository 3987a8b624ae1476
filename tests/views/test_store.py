"""What stores have in common. What each promises is in tests/contract/test_view_stores.py."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from headrace.views.definition import Definition, StoreKind
from headrace.views.stores import _CLASSES
from headrace.views.stores.sqlite import SqliteViews


def test_every_kind_of_store_has_a_class() -> None:
    assert set(_CLASSES) == set(get_args(StoreKind))


def test_stores_of_one_file_switch_together_and_others_do_not(tmp_path: Path) -> None:
    def group(name: str, at: str = "") -> str:
        return SqliteViews(Definition(name=name, topics=("t",), key=("id",), at=at), tmp_path).switch_group

    assert group("users") == group("orders") == group("orders", str(tmp_path / "views.db"))
    assert group("users") != group("users", str(tmp_path / "other.db"))
