"""The arguments of `read_files`, in the options of Spark's file source, so that the plan of a job contains them."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from headrace.plan_names import BAD_METRIC

FileFormat = Literal["csv", "json", "parquet"]

FILES_OPTION = "headrace.files"
"""The option of a file source that holds its `FilesSpec`. Spark keeps unknown options."""


class FilesSpec(Struct, frozen=True, kw_only=True):
    """Files as they were declared. `schema` is Spark's, as JSON."""

    id: str
    path: str
    format: FileFormat
    schema: str
    required: tuple[str, ...]
    """Columns without which a row is bad."""
    bounded: bool
    dead_letters: str | None
    """The topic of the bad rows; None is that of the job."""
    options: dict[str, str]
    """of Spark's reader, those of the user included"""
    event_time: str | None = None
    watermark: str | None = None

    @property
    def bad_metric(self) -> str:
        """The name of the observed metric that counts the bad rows of a batch."""
        return BAD_METRIC + self.id

    @property
    def can_have_bad(self) -> bool:
        return self.format != "parquet" or bool(self.required)

    @property
    def reads(self) -> str:
        """In the same notation as a sink's target."""
        return f"{self.format} files {self.path}"

    def to_option(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_option(cls, text: str) -> FilesSpec:
        return msgspec.json.decode(text, type=cls)
