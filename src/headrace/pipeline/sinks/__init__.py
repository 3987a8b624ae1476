"""Where the rows of a job go. One file a sink.

from headrace.pipeline.sinks import Table, Topic
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.pipeline.sinks.delta import Delta
    from headrace.pipeline.sinks.discard import Discard
    from headrace.pipeline.sinks.each import Each
    from headrace.pipeline.sinks.redis import Redis
    from headrace.pipeline.sinks.search import Search
    from headrace.pipeline.sinks.table import Table
    from headrace.pipeline.sinks.topic import Topic

__all__ = ["Delta", "Discard", "Each", "Redis", "Search", "Table", "Topic"]


def __getattr__(name: str) -> Any:
    """Imported when asked for: a job that writes to a topic needs no search engine."""
    if name in __all__:
        found = getattr(importlib.import_module(f"headrace.pipeline.sinks.{name.lower()}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'headrace.pipeline.sinks' has no attribute {name!r}")
