"""The arguments of `read_topic`, in the options of Spark's Kafka source, so that the plan of a job contains them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from headrace.plan_names import BAD_METRIC

Format = Literal[
    "json", "avro", "avro-registry", "json-registry", "protobuf-registry", "text", "binary", "changes"
]

SOURCE_OPTION = "headrace.source"
"""The option of a Kafka source that holds its `SourceSpec`. Spark keeps unknown options."""


class SourceSpec(Struct, frozen=True, kw_only=True):
    """A source as it was declared. `schema` is the text that `formats.schema_text` returns."""

    id: str
    bootstrap: str
    topics: tuple[str, ...]
    pattern: str | None
    format: Format
    schema: str | None
    required: tuple[str, ...]
    bounded: bool
    dead_letters: str | None
    """The topic of the bad records; None is that of the job."""
    options: Mapping[str, Any]
    """The user's options for Spark's Kafka source."""
    idle_us: int | None = None
    """After this time without a record, the watermark advances without this source; None for never."""
    event_time: str | None = None
    """The field with the event time, if it is one of the payload."""
    ahead_us_max: int | None = None
    """How far the event time may be ahead of the record's timestamp; None for any time."""
    watermark: str | None = None
    """The delay of the watermark of a stream. Its event time can't be before 1970, where Spark's watermarks start."""

    tombstones: bool = False
    """Whether a change event without a value is a delete."""

    key_schema: str | None = None
    """The registered schema of keys, as text; None if keys are not decoded."""

    @property
    def bad_metric(self) -> str:
        """The name of the observed metric that counts the bad records of a batch."""
        return BAD_METRIC + self.id

    @property
    def can_have_bad(self) -> bool:
        return self.format != "binary" or self.key_schema is not None

    def reads(self, topic: str) -> bool:
        return topic in self.topics or (self.pattern is not None and bool(re.fullmatch(self.pattern, topic)))

    def to_option(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_option(cls, text: str) -> SourceSpec:
        return msgspec.json.decode(text, type=cls)
