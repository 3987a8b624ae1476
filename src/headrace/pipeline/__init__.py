"""Jobs on Spark: topics in, sinks out, each micro-batch once.

from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Topic

spark = session("shop")
clicks = read_topic(spark, "clicks", schema="user STRING, url STRING, at TIMESTAMP")
Job("shop-clicks", clicks.where("url LIKE '%/shop/%'"), Topic("shop-clicks", key="user")).start()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.pipeline.job import Job
    from headrace.pipeline.sinks.spark_formats import register_formats
    from headrace.pipeline.source.read_topic import Pattern, read_topic
    from headrace.pipeline.spark.session import connector_jars, session

__all__ = ["Job", "Pattern", "connector_jars", "read_topic", "register_formats", "session"]

_MODULES = {
    "Job": "job",
    "Pattern": "source.read_topic",
    "connector_jars": "spark.session",
    "read_topic": "source.read_topic",
    "register_formats": "sinks.spark_formats",
    "session": "spark.session",
}


def __getattr__(name: str) -> Any:
    """Import on first use: the command line lists jobs without the cost of importing Spark."""
    if name in _MODULES:
        found = getattr(importlib.import_module(f"headrace.pipeline.{_MODULES[name]}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'headrace.pipeline' has no attribute {name!r}")
