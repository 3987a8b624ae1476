"""Stored queries against documents: an index of the queries by their rarest required term.

A document is reduced to the numbers of its terms. Each stored query is listed under one term: of those that it
requires, the one that fewest documents and queries have; a query that requires one of several is listed under all of
them. The lists of a document's terms are its candidates. Those that miss a required term or have a forbidden one are
dropped by counting, for many documents at a time. For most queries this is the answer already (`Plan.is_exact`); only
the others are evaluated. Queries without a required term are candidates for every document.

Queries are arrays and encoded trees, not objects: a million of them take some hundred megabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headrace.operators.search import evaluate
from headrace.operators.search.document import Document, text_fields_of
from headrace.operators.search.plan import plan_of
from headrace.operators.search.query import Field, Node, decode_query
from headrace.operators.search.vocabulary import Leaf, Vocabulary
from headrace.operators.state.ids import Ints, Mask, ranges

Numbers = npt.NDArray[np.int32]

CHUNK_DOCUMENTS_MAX = 256
CHUNK_CELLS_MAX = 16_000_000
"""Documents times terms of one round: a byte for each."""
RECENT_MIN = 2_000
"""Queries that are indexed beside the large index before it is built again."""
DECODED_MAX = 20_000
"""Trees of queries that are kept decoded."""
FIRST_STATISTICS = 1_000
"""After this many documents, and ten times as many each time, terms are chosen again, by the documents seen."""

ALWAYS_US = -(2**62)
NEVER_US = 2**62

ANY_VALUE = -1
_UNKNOWN_VALUE = -2


class Hits(Struct, frozen=True):
    """One hit for each element, ordered by document and query."""

    documents: Ints
    queries: Ints
    """The numbers that `Matcher.add` returned."""

    def __len__(self) -> int:
        return len(self.documents)


class Matcher:
    """`filters` is the number of values that a document and a query must have in common, if the query has them."""

    def __init__(self, fields: Sequence[Field], *, filters: int = 0) -> None:
        self.fields = tuple(fields)
        self._text_fields = text_fields_of(fields)
        self._filters = filters
        self.clear()

    def clear(self) -> None:
        self._vocabulary = Vocabulary(len(self.fields))
        self._content = bytearray()
        self._ends = _Growing(np.int64)
        self._required = _Lists()
        self._groups = _Lists()
        """Of each query, the numbers of its groups in `_alternatives`."""
        self._alternatives = _Lists()
        self._forbidden = _Lists()
        self._is_exact = _Growing(np.bool_)
        self._is_alive = _Growing(np.bool_)
        self._since_us = _Growing(np.int64)
        self._until_us = _Growing(np.int64)
        self._codes = [_Growing(np.int32) for _ in range(self._filters)]
        self._values: list[dict[Any, int]] = [{} for _ in range(self._filters)]
        self._decoded: dict[int, Node] = {}
        self._seen = _Growing(np.int64)
        self._used = _Growing(np.int64)
        self._documents = 0
        self._large = _Index.nothing()
        self._recent = _Index.nothing()
        self._indexed = 0
        self._indexed_recent = 0
        self._next_statistics = FIRST_STATISTICS
        self._cells: Mask = np.zeros(0, dtype=np.bool_)

    def __len__(self) -> int:
        """Queries that were added, those that were removed included."""
        return len(self._is_alive)

    @property
    def alive(self) -> int:
        return int(self._is_alive.values.sum())

    @property
    def for_every_document(self) -> int:
        """Queries that no term keeps from being candidates."""
        listed = self._required.counts + self._groups.counts
        return int((self._is_alive.values & (listed == 0)).sum())

    def add(
        self,
        queries: Sequence[bytes],
        *,
        since_us: Ints | None = None,
        until_us: Ints | None = None,
        filters: Sequence[Sequence[Any]] = (),
    ) -> Ints:
        """Add encoded queries, valid for documents from `since_us` until before `until_us`; returns their numbers.

        `filters` has one sequence of values for each filter; None is any value.
        """
        first, first_group = len(self), len(self._alternatives)
        for content in queries:
            plan = plan_of(decode_query(content), self._cost)
            self._content += content
            self._required.append(self._numbers(plan.required))
            before = len(self._alternatives)
            self._groups.append(range(before, before + len(plan.groups)))
            for group in plan.groups:
                self._alternatives.append(self._numbers(group))
            self._forbidden.append(self._numbers(plan.forbidden))
            self._is_exact.extend([plan.is_exact])
        count = len(queries)
        self._ends.extend(
            np.cumsum([len(each) for each in queries], dtype=np.int64) + self._end_of(first - 1)
        )
        self._is_alive.extend(np.ones(count, dtype=np.bool_))
        self._since_us.extend(np.full(count, ALWAYS_US) if since_us is None else since_us)
        self._until_us.extend(np.full(count, NEVER_US) if until_us is None else until_us)
        for codes, known, values in zip(self._codes, self._values, filters, strict=True):
            codes.extend(
                [ANY_VALUE if each is None else known.setdefault(each, len(known)) for each in values]
            )
        self._used.resize(len(self._vocabulary))
        for lists, start in ((self._required, first), (self._alternatives, first_group)):
            added = lists.elements[lists.start_of(start) :]
            self._used.values[:] += np.bincount(added, minlength=len(self._vocabulary))
        return np.arange(first, first + count)

    def remove(self, numbers: Ints) -> None:
        self._is_alive.values[numbers] = False

    def end(self, numbers: Ints, until_us: Ints) -> None:
        """Queries are not valid any more from this time on."""
        self._until_us.values[numbers] = until_us

    def query(self, number: int) -> Node:
        found = self._decoded.get(number)
        if found is None:
            if len(self._decoded) >= DECODED_MAX:
                self._decoded.clear()
            content = memoryview(self._content)[self._end_of(number - 1) : self._end_of(number)]
            found = self._decoded[number] = decode_query(content)
            content.release()
        return found

    def documents(self, contents: Iterable[Sequence[Any]]) -> list[Document]:
        """Documents from the values of the fields, one sequence for each document."""
        return [Document(each, self.fields, self._text_fields) for each in contents]

    def match(
        self,
        documents: Sequence[Document],
        *,
        times_us: Ints | None = None,
        filters: Sequence[Sequence[Any]] = (),
    ) -> Hits:
        terms = [self._vocabulary.in_document(each) for each in documents]
        self._count(terms)
        self._refresh()
        codes = [
            np.array([known.get(each, _UNKNOWN_VALUE) for each in values], dtype=np.int32)
            for known, values in zip(self._values, filters, strict=True)
        ]
        times_us = np.zeros(len(documents), dtype=np.int64) if times_us is None else times_us
        width = max(len(self._vocabulary), 1)
        size = max(1, min(CHUNK_DOCUMENTS_MAX, CHUNK_CELLS_MAX // width))
        found = [
            self._in_chunk(documents, terms, start, min(start + size, len(documents)), times_us, codes)
            for start in range(0, len(documents), size)
        ]
        if not found:
            return Hits(np.empty(0, np.int64), np.empty(0, np.int64))
        return Hits(
            np.concatenate([each.documents for each in found]),
            np.concatenate([each.queries for each in found]),
        )

    def _in_chunk(
        self,
        documents: Sequence[Document],
        terms: Sequence[list[int]],
        start: int,
        end: int,
        times_us: Ints,
        codes: Sequence[Numbers],
    ) -> Hits:
        counts = [len(each) for each in terms[start:end]]
        numbers = np.fromiter(chain.from_iterable(terms[start:end]), dtype=np.int64, count=sum(counts))
        which = np.repeat(np.arange(end - start), counts)
        found_in, found = self._candidates(which, numbers, end - start)
        is_kept = self._is_valid(found_in + start, found, times_us, codes)
        found_in, found = found_in[is_kept], found[is_kept]
        width = len(self._vocabulary)
        cells = self._cells_of(end - start, width)
        cells[which * width + numbers] = True
        for check in (self._has_required, self._has_alternatives, self._has_no_forbidden):
            is_kept = check(cells, found_in * width, found)
            found_in, found = found_in[is_kept], found[is_kept]
        cells[which * width + numbers] = False
        found_in, found = _distinct(found_in, found, len(self))
        is_hit = self._is_exact.values[found]
        for place in np.flatnonzero(~is_hit):
            is_hit[place] = evaluate.matches(
                self.query(int(found[place])), documents[start + int(found_in[place])]
            )
        return Hits(found_in[is_hit] + start, found[is_hit])

    def _candidates(self, which: Ints, numbers: Ints, count: int) -> tuple[Ints, Ints]:
        """Pairs of a document and a query, some of them several times."""
        pairs = [index.candidates(which, numbers) for index in (self._large, self._recent)]
        for index in (self._large, self._recent):
            always = index.for_every_document
            pairs.append((np.repeat(np.arange(count), len(always)), np.tile(always, count)))
        return np.concatenate([each for each, _ in pairs]), np.concatenate([each for _, each in pairs])

    def _is_valid(self, found_in: Ints, found: Ints, times_us: Ints, codes: Sequence[Numbers]) -> Mask:
        at_us = times_us[found_in]
        is_valid: Mask = self._is_alive.values[found]
        is_valid &= (at_us >= self._since_us.values[found]) & (at_us < self._until_us.values[found])
        for own, given in zip(self._codes, codes, strict=True):
            wanted = own.values[found]
            is_valid &= (wanted == ANY_VALUE) | (wanted == given[found_in])
        return is_valid

    def _has_required(self, cells: Mask, rows: Ints, found: Ints) -> Mask:
        owners, is_present = self._present(cells, rows, found, self._required)
        return _all_but(len(found), owners[~is_present])

    def _has_no_forbidden(self, cells: Mask, rows: Ints, found: Ints) -> Mask:
        owners, is_present = self._present(cells, rows, found, self._forbidden)
        return _all_but(len(found), owners[is_present])

    def _has_alternatives(self, cells: Mask, rows: Ints, found: Ints) -> Mask:
        starts, ends = self._groups.spans(found)
        groups = self._groups.elements[ranges(starts, ends)].astype(np.int64)
        owners = np.repeat(np.arange(len(found)), ends - starts)
        which, is_present = self._present(cells, rows[owners], groups, self._alternatives)
        without = _all_but(len(groups), which[is_present])
        return _all_but(len(found), owners[without])

    def _present(self, cells: Mask, rows: Ints, found: Ints, lists: _Lists) -> tuple[Ints, Mask]:
        """For each term of each list: the place of the list, and whether the document has the term."""
        starts, ends = lists.spans(found)
        counts = ends - starts
        is_present: Mask = cells[np.repeat(rows, counts) + lists.elements[ranges(starts, ends)]]
        return np.repeat(np.arange(len(found)), counts), is_present

    def _cells_of(self, count: int, width: int) -> Mask:
        if len(self._cells) < count * width:
            self._cells = np.zeros(min(CHUNK_DOCUMENTS_MAX, count * 2) * width, dtype=np.bool_)
        return self._cells

    def _count(self, terms: Sequence[list[int]]) -> None:
        self._seen.resize(len(self._vocabulary))
        numbers = np.fromiter(chain.from_iterable(terms), dtype=np.int64)
        self._seen.values[:] += np.bincount(numbers, minlength=len(self._vocabulary))
        self._documents += len(terms)

    def _refresh(self) -> None:
        """Index the queries that were added since the last call."""
        added = len(self) - self._indexed
        is_due = self._documents >= self._next_statistics
        if is_due or added > max(RECENT_MIN, self._indexed // 4):
            self._large = self._index(np.flatnonzero(self._is_alive.values))
            self._recent = _Index.nothing()
            self._indexed = self._indexed_recent = len(self)
            while self._documents >= self._next_statistics:
                self._next_statistics *= 10
        elif self._indexed_recent < len(self):
            self._recent = self._index(np.arange(self._indexed, len(self)))
            self._indexed_recent = len(self)

    def _index(self, queries: Ints) -> _Index:
        width = len(self._vocabulary)
        self._seen.resize(width)
        cost = self._seen.values * (int(self._used.values.max(initial=0)) + 1) + self._used.values
        starts, ends = self._required.spans(queries)
        terms = self._required.elements[ranges(starts, ends)].astype(np.int64)
        owners = np.repeat(np.arange(len(queries)), ends - starts)
        order = np.lexsort((terms, cost[terms], owners))
        terms, owners = terms[order], owners[order]
        is_first = np.ones(len(owners), dtype=np.bool_)
        is_first[1:] = owners[1:] != owners[:-1]
        others = queries[(self._required.counts[queries] == 0) & (self._groups.counts[queries] > 0)]
        starts, _ = self._groups.spans(others)
        starts, ends = self._alternatives.spans(self._groups.elements[starts].astype(np.int64))
        alternatives = self._alternatives.elements[ranges(starts, ends)].astype(np.int64)
        listed = np.concatenate([terms[is_first], alternatives])
        under = np.concatenate([queries[owners[is_first]], np.repeat(others, ends - starts)])
        order = np.argsort(listed, kind="stable")
        is_listed = np.zeros(len(self), dtype=np.bool_)
        is_listed[under] = True
        return _Index(
            ends=np.cumsum(np.bincount(listed, minlength=width)),
            queries=under[order].astype(np.int32),
            for_every_document=queries[~is_listed[queries]],
        )

    def _cost(self, leaf: Leaf) -> float:
        number = self._vocabulary.number_of(leaf)
        seen = self._seen.values[number] if number < len(self._seen) else 0
        used = self._used.values[number] if number < len(self._used) else 0
        return float(seen) * 1_000 + float(used)

    def _numbers(self, leaves: Iterable[Leaf]) -> list[int]:
        return sorted(map(self._vocabulary.number_of, leaves))

    def _end_of(self, number: int) -> int:
        return int(self._ends.values[number]) if number >= 0 else 0


def _all_but(count: int, places: Ints) -> Mask:
    found = np.ones(count, dtype=np.bool_)
    found[places] = False
    return found


def _distinct(found_in: Ints, found: Ints, count: int) -> tuple[Ints, Ints]:
    """The pairs in order, without those that several alternatives found."""
    pairs = np.sort(found_in * count + found)
    is_first = np.ones(len(pairs), dtype=np.bool_)
    is_first[1:] = pairs[1:] != pairs[:-1]
    return np.divmod(pairs[is_first], max(count, 1))


class _Index(Struct, frozen=True):
    """Queries by term: those of term n end at `ends[n]`."""

    ends: Ints
    queries: Numbers
    for_every_document: Ints

    @classmethod
    def nothing(cls) -> _Index:
        return cls(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))

    def candidates(self, which: Ints, numbers: Ints) -> tuple[Ints, Ints]:
        is_known = numbers < len(self.ends)
        which, numbers = which[is_known], numbers[is_known]
        ends = self.ends[numbers]
        starts = np.where(numbers > 0, self.ends[numbers - 1], 0)
        return np.repeat(which, ends - starts), self.queries[ranges(starts, ends)].astype(np.int64)


class _Growing:
    """An array that grows at its end."""

    def __init__(self, kind: npt.DTypeLike) -> None:
        self._array: npt.NDArray[Any] = np.zeros(16, dtype=kind)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def values(self) -> npt.NDArray[Any]:
        return self._array[: self._length]

    def extend(self, more: Sequence[Any] | npt.NDArray[Any]) -> None:
        before = self._length
        self.resize(before + len(more))
        self._array[before : self._length] = more

    def resize(self, length: int) -> None:
        """Elements beyond the old length are 0."""
        if length > len(self._array):
            larger = np.zeros(max(length, len(self._array) * 3 // 2), dtype=self._array.dtype)
            larger[: self._length] = self.values
            self._array = larger
        self._length = length


class _Lists:
    """One list of numbers for each query, in one array."""

    def __init__(self) -> None:
        self._elements = _Growing(np.int32)
        self._ends = _Growing(np.int64)

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def elements(self) -> Numbers:
        return self._elements.values

    @property
    def counts(self) -> Ints:
        return np.diff(self._ends.values, prepend=0)

    def append(self, numbers: Sequence[int]) -> None:
        self._elements.extend(numbers)
        self._ends.extend([len(self._elements)])

    def start_of(self, number: int) -> int:
        return int(self._ends.values[number - 1]) if number > 0 else 0

    def spans(self, numbers: Ints) -> tuple[Ints, Ints]:
        ends = self._ends.values[numbers]
        if len(numbers) == 0:
            return ends, ends
        return np.where(numbers > 0, self._ends.values[numbers - 1], 0), ends
