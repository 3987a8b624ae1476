"""A document as queries see it: the words of its text columns, and the values of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from headrace.operators.search.analysis import keyword, words
from headrace.operators.search.query import ANY, Field, Kind

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)

_DAY_US = 86_400_000_000

SEPARATOR = "\n"
"""Between the words of a joined text; no word contains it."""


class Document:
    """Everything but the content is computed when it is needed first. A column that is null has no words."""

    __slots__ = ("_content", "_counts", "_fields", "_joined", "_sets", "_words", "text_fields")

    def __init__(
        self, content: Sequence[Any], fields: Sequence[Field], text_fields: Sequence[int] | None = None
    ) -> None:
        self._content = content
        self._fields = fields
        self.text_fields = text_fields if text_fields is not None else text_fields_of(fields)
        self._words: dict[int, list[str]] = {}
        self._sets: dict[int, Set[str]] = {}
        self._counts: dict[int, Counter[str]] = {}
        self._joined: dict[int, str] = {}

    def fields_of(self, field: int) -> Sequence[int]:
        return self.text_fields if field == ANY else (field,)

    def kind(self, field: int) -> Kind:
        return self._fields[field].kind

    def name(self, field: int) -> str:
        return self._fields[field].name

    def text(self, field: int) -> str:
        return str(self._content[field] or "")

    def words(self, field: int) -> list[str]:
        """The words of one column, in order."""
        found = self._words.get(field)
        if found is None:
            found = self._words[field] = self._analysed(field)
        return found

    def _analysed(self, field: int) -> list[str]:
        content = self._content[field]
        if content is None:
            return []
        if self._fields[field].kind is Kind.TEXT:
            return words(content)
        if isinstance(content, bool):
            return ["true" if content else "false"]
        return [keyword(str(content))]

    def word_set(self, field: int) -> Set[str]:
        found = self._sets.get(field)
        if found is None:
            found = set().union(*map(self.words, self.fields_of(field)))
            self._sets[field] = found
        return found

    def count(self, field: int, word: str) -> int:
        """How often the word occurs."""
        if field not in self._counts:
            self._counts[field] = Counter()
            for each in self.fields_of(field):
                self._counts[field].update(self.words(each))
        return self._counts[field][word]

    def joined(self, field: int) -> str:
        """The words of one column as one text, in which a phrase is a part."""
        found = self._joined.get(field)
        if found is None:
            found = self._joined[field] = SEPARATOR + SEPARATOR.join(self.words(field)) + SEPARATOR
        return found

    def value(self, field: int) -> Any:
        """A number, or a time in microseconds since the epoch."""
        content = self._content[field]
        if isinstance(content, datetime):
            return ((content if content.tzinfo else content.replace(tzinfo=UTC)) - _EPOCH) // _US
        if isinstance(content, date):
            return (datetime(content.year, content.month, content.day, tzinfo=UTC) - _EPOCH) // _US
        return content


def listed(column: pa.Array) -> list[Any]:
    """The values of a column. Times are microseconds since the epoch, because Python has no years after 9999."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    elif pa.types.is_date(column.type):
        return [None if day is None else day * _DAY_US for day in column.cast(pa.int32()).to_pylist()]
    return column.to_pylist()  # type: ignore[no-any-return]


def text_fields_of(fields: Sequence[Field]) -> tuple[int, ...]:
    return tuple(number for number, each in enumerate(fields) if each.kind is Kind.TEXT)
