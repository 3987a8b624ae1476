"""One module for each kind of store. A store is imported when a view of its kind is opened."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import cast

from headrace.views.definition import Definition, StoreKind
from headrace.views.store import Store

_CLASSES: dict[StoreKind, str] = {
    "sqlite": "SqliteViews",
    "postgresql": "PostgresViews",
    "redis": "RedisViews",
    "search": "SearchViews",
    "lake": "LakeViews",
    "parquet": "ParquetViews",
    "opensearch": "OpenSearchViews",
}


def open_store(definition: Definition, data_dir: Path) -> Store:
    """Nothing connects before the first call."""
    module = importlib.import_module(f"headrace.views.stores.{definition.store}")
    return cast("Store", getattr(module, _CLASSES[definition.store])(definition, data_dir))
