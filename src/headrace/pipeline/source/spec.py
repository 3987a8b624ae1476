"""What a source was made from, kept in the options of Spark's Kafka source, so that the plan of a job contains it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from headrace.plan_names import BAD_METRIC

Format = Literal["json", "avro", "avro-registry", "text", "binary", "changes"]

SOURCE_OPTION = "headrace.source"
"""The option of a Kafka source that holds its `SourceSpec`. Spark keeps unknown options."""


class SourceSpec(Struct, frozen=True, kw_only=True):
    """What a source was made from. `schema` is the text that `formats.schema_text` returns."""

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
    options: Mapping[str, str]
    """The user's options for Spark's Kafka source."""
    idle_us: int | None = None
    """After this time without a record, the watermark advances without this source; None for never."""

    @property
    def bad_metric(self) -> str:
        """The name of the observed metric that counts the bad records of a batch."""
        return BAD_METRIC + self.id

    @property
    def can_have_bad(self) -> bool:
        return self.format != "binary"

    def to_option(self) -> str:
        return json.dumps({name: getattr(self, name) for name in _SPEC_FIELDS})

    @classmethod
    def from_option(cls, text: str) -> SourceSpec:
        kept = json.loads(text)
        return cls(**{**kept, "topics": tuple(kept["topics"]), "required": tuple(kept["required"])})


_SPEC_FIELDS = tuple(SourceSpec.__annotations__)
