"""What a view is. A changed definition is a new version, and so a rebuild."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from headrace.views.errors import BadView

NAME_LENGTH_MAX = 40
"""With the number of a version it must fit the 63 characters of a PostgreSQL table."""

_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
"""Without `__`, which separates the number of a version."""

Row = Mapping[str, Any]
StoreKind = Literal["sqlite", "postgresql", "redis", "search", "lake", "parquet", "opensearch"]


class Definition(Struct, frozen=True, kw_only=True):
    """A view as the user declared it."""

    name: str
    topics: tuple[str, ...]
    key: tuple[str, ...]
    sql: str = ""
    """over the last parts of the topics' names as tables; empty for all columns of one topic"""
    script: str = ""
    """FILE.py:FUNCTION instead of topics and SQL: the function takes the Spark session and returns the rows"""
    store: StoreKind = "sqlite"
    at: str = ""
    """the address of the store; empty for the embedded default"""
    schemas: Mapping[str, str] = {}
    """columns of a topic as in CREATE TABLE, where they cannot be found"""
    options: Mapping[str, str] = {}
    """of the store: text columns, partition columns"""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > NAME_LENGTH_MAX:
            raise BadView(
                f"{self.name!r} cannot be the name of a view",
                hint=f"small letters, digits and single '_', at most {NAME_LENGTH_MAX}, beginning with a letter",
            )
        if not self.key:
            raise BadView(f"view {self.name} has no key", hint="--key names its columns")
        if bool(self.topics) == bool(self.script):
            raise BadView(
                f"view {self.name} reads {'topics and a script' if self.script else 'nothing'}",
                hint="--from names its topics; or --script FILE.py:FUNCTION the function that returns its rows",
            )

    def physical(self, version: int) -> str:
        """The name of a version in its store."""
        return f"{self.name}__{version}"

    def version_of(self, physical: str) -> int | None:
        """The version that has this name in its store; None if it is none of this view."""
        prefix, _, number = physical.rpartition("__")
        return int(number) if prefix == self.name and number.isdecimal() else None
