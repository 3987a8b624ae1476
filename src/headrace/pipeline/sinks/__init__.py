"""Where the rows of a job go. One file a sink.

from headrace.pipeline.sinks import Table, Topic
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.exports import lazy_exports

if TYPE_CHECKING:
    from headrace.pipeline.sinks.delta import Delta, DeltaMode
    from headrace.pipeline.sinks.discard import Discard
    from headrace.pipeline.sinks.each import Each, Per
    from headrace.pipeline.sinks.opensearch import OpenSearch
    from headrace.pipeline.sinks.parquet import Parquet
    from headrace.pipeline.sinks.redis import Redis
    from headrace.pipeline.sinks.search import Search
    from headrace.pipeline.sinks.search_reader import HITS_MAX, Hit, SearchReader
    from headrace.pipeline.sinks.sink import Guarantee, OutputMode, Reject, RejectedRow, Sink, SinkWriter
    from headrace.pipeline.sinks.table import Combine, Table, TableMode
    from headrace.pipeline.sinks.topic import Compression, Topic, TopicFormat, TopicGuarantee
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "delta": ("Delta", "DeltaMode"),
            "discard": ("Discard",),
            "each": ("Each", "Per"),
            "opensearch": ("OpenSearch",),
            "parquet": ("Parquet",),
            "redis": ("Redis",),
            "search": ("Search",),
            "search_reader": ("HITS_MAX", "Hit", "SearchReader"),
            "sink": ("Guarantee", "OutputMode", "Reject", "RejectedRow", "Sink", "SinkWriter"),
            "table": ("Combine", "Table", "TableMode"),
            "topic": ("Compression", "Topic", "TopicFormat", "TopicGuarantee"),
        },
    )

__all__ = [
    "HITS_MAX",
    "Combine",
    "Compression",
    "Delta",
    "DeltaMode",
    "Discard",
    "Each",
    "Guarantee",
    "Hit",
    "OpenSearch",
    "OutputMode",
    "Parquet",
    "Per",
    "Redis",
    "Reject",
    "RejectedRow",
    "Search",
    "SearchReader",
    "Sink",
    "SinkWriter",
    "Table",
    "TableMode",
    "Topic",
    "TopicFormat",
    "TopicGuarantee",
]
