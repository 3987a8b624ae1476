"""A naive matcher: every path in the order of preference, one row at a time, by the definition and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

from msgspec import Struct

from headrace.operators.patterns import syntax as of

Row = Mapping[str, Any]
Labels = tuple[tuple[str, bool], ...]
"""The variable of each row of a match, and whether the row is excluded."""


class Match(Struct, frozen=True, kw_only=True):
    """What a condition or measure may see: the rows of the partition, and the match so far."""

    rows: Sequence[Row]
    start: int
    names: tuple[str, ...]
    number: int = 1

    def of(self, *variables: str) -> list[Row]:
        """The rows of these variables, of all without any."""
        mine = zip(range(self.start, len(self.rows)), self.names, strict=False)
        return [self.rows[at] for at, name in mine if not variables or name in variables]

    @property
    def at(self) -> int:
        return self.start + len(self.names) - 1

    def near(self, offset: int) -> Row | None:
        place = self.at + offset
        return self.rows[place] if self.names and 0 <= place < len(self.rows) else None


Condition = Callable[[Match], bool | None]
Measure = Callable[[Match, Match], Any]
"""From the match until a row, and the whole match."""


class Naive(Struct, frozen=True, kw_only=True):
    pattern: of.Pattern
    conditions: Mapping[str, Condition]
    measures: Mapping[str, Measure]
    skip: str = "past last row"
    skip_to: tuple[str, ...] = ()
    mode: of.RowsPerMatch = "one"
    within: int | None = None
    rows_max: int | None = None

    def output(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """The output for one partition, in its order."""
        found: list[tuple[int, dict[str, Any]]] = []
        matched: set[int] = set()
        number, at = 0, 0
        while at < len(rows):
            labels = self._first(rows, at, number + 1)
            if labels is None:
                at += 1
                continue
            number += 1
            matched |= set(range(at, at + max(len(labels), 1)))
            found += [(at, each) for each in self._shown(rows, at, labels, number)]
            at = self._next(at, labels)
        if self.mode == "all with unmatched":
            nothing = dict.fromkeys(self.measures)
            found += [(at, {**row, **nothing}) for at, row in enumerate(rows) if at not in matched]
        return [each for _, each in sorted(found, key=lambda each: each[0])]

    def _first(self, rows: Sequence[Row], start: int, number: int) -> Labels | None:
        end = len(rows)
        if self.within is not None:
            end = next(
                (at for at in range(start, end) if rows[at]["t"] - rows[start]["t"] >= self.within), end
            )
        if self.rows_max is not None:
            end = min(end, start + self.rows_max)

        def is_possible(labels: Labels, name: str) -> bool:
            names = (*(each for each, _ in labels), name)
            if start + len(names) > end:
                return False
            condition = self.conditions.get(name)
            return (
                condition is None
                or condition(Match(rows=rows, start=start, names=names, number=number)) is True
            )

        def paths(part: of.Pattern, labels: Labels, excluded: bool) -> Iterator[Labels]:
            match part:
                case of.Variable(name=name):
                    if is_possible(labels, name):
                        yield (*labels, (name, excluded))
                case of.Empty():
                    yield labels
                case of.Anchor(is_start=True):
                    if start == 0 and not labels:
                        yield labels
                case of.Anchor():
                    if start + len(labels) == len(rows):
                        yield labels
                case of.Sequence(parts=parts):
                    yield from sequence(parts, labels, excluded)
                case of.Alternation(choices=choices):
                    for each in choices:
                        yield from paths(each, labels, excluded)
                case of.Permutation(parts=parts):
                    for order in permutations(parts):
                        yield from sequence(order, labels, excluded)
                case of.Exclusion(part=inner):
                    yield from paths(inner, labels, True)
                case of.Repetition(part=inner, least=least, most=most, is_greedy=is_greedy):
                    if least:
                        rest = of.Repetition(inner, least - 1, None if most is None else most - 1, is_greedy)
                        for found in paths(inner, labels, excluded):
                            yield from paths(rest, found, excluded)
                        return
                    if not is_greedy:
                        yield labels
                    if most is None or most > 0:
                        rest = of.Repetition(inner, 0, None if most is None else most - 1, is_greedy)
                        for found in paths(inner, labels, excluded):
                            if most is not None or len(found) > len(labels):
                                yield from paths(rest, found, excluded)
                    if is_greedy:
                        yield labels

        def sequence(parts: Sequence[of.Pattern], labels: Labels, excluded: bool) -> Iterator[Labels]:
            if not parts:
                yield labels
                return
            for each in paths(parts[0], labels, excluded):
                yield from sequence(parts[1:], each, excluded)

        return next(paths(self.pattern, (), False), None)

    def _next(self, start: int, labels: Labels) -> int:
        if not labels or self.skip == "to next row":
            return start + 1
        if self.skip == "past last row":
            return start + len(labels)
        places = [place for place, (name, _) in enumerate(labels) if name in self.skip_to]
        place = (places[0] if self.skip == "to first" else places[-1]) if places else 0
        if place == 0:
            raise ValueError("the skip has no target")
        return start + place

    def _shown(
        self, rows: Sequence[Row], start: int, labels: Labels, number: int
    ) -> Iterator[dict[str, Any]]:
        names = tuple(name for name, _ in labels)

        def measured(count: int) -> dict[str, Any]:
            until = Match(rows=rows, start=start, names=names[:count], number=number)
            whole = Match(rows=rows, start=start, names=names, number=number)
            return {name: each(until, whole) for name, each in self.measures.items()}

        if self.mode == "one":
            yield measured(len(names))
            return
        if not labels and self.mode != "all omit empty":
            yield {**rows[start], **measured(0)}
        for count, (_, excluded) in enumerate(labels):
            if not excluded:
                yield {**rows[start + count], **measured(count + 1)}


def text_of(pattern: of.Pattern) -> str:
    """The pattern as SQL."""
    match pattern:
        case of.Variable(name=name):
            return name
        case of.Empty():
            return "()"
        case of.Anchor(is_start=is_start):
            return "^" if is_start else "$"
        case of.Sequence(parts=parts):
            return "(" + " ".join(map(text_of, parts)) + ")"
        case of.Alternation(choices=choices):
            return "(" + " | ".join(map(text_of, choices)) + ")"
        case of.Permutation(parts=parts):
            return f"PERMUTE({', '.join(map(text_of, parts))})"
        case of.Exclusion(part=part):
            return "{- " + text_of(part) + " -}"
        case of.Repetition(part=part, least=least, most=most, is_greedy=is_greedy):
            bounds = "{" + f"{least},{'' if most is None else most}" + "}"
            return f"({text_of(part)}){bounds}{'' if is_greedy else '?'}"
    raise AssertionError(pattern)
