"""The matches of a pattern in sorted rows of many keys.

Conditions that do not depend on the path of a match are evaluated over whole columns before any match is tried. If all
are like that, matches are found in linear time (`automaton.py`). Otherwise the paths are tried in the order of
preference, without those that the automaton excludes, and the number of steps is limited.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.operators.patterns import syntax as of
from headrace.operators.patterns.automaton import ACCEPT, Automaton
from headrace.operators.patterns.binding import Bound, walk
from headrace.operators.patterns.expressions import as_mask, conjuncts, evaluate
from headrace.operators.patterns.paths import Path
from headrace.operators.patterns.row_columns import RowColumns
from headrace.operators.state.ids import Ints, Mask

NO_LIMIT = 2**62


class PatternFailed(HeadraceError):
    """A pattern that can't be evaluated on the rows of a key."""


class Rows(Struct, frozen=True, kw_only=True):
    """Rows of many keys, sorted by key and order. The rows of a key are a partition."""

    columns: RowColumns
    begin: Ints
    """The first row of each partition at which a match may start; rows before it are there for PREV."""
    known: Ints
    """The end of the rows of each partition that may be in a match: later ones may still be preceded by others."""
    is_start: Mask
    """Whether the partition begins with its first row: none was deleted."""
    matches: Ints
    """The number of earlier matches of each partition."""
    times_us: Ints
    closed_us: int
    """The watermark: the time of matches that started `within` before it is over."""
    is_final: bool
    """No more rows follow."""
    describe: Callable[[int], str]
    """The key of a partition, for errors."""


class Found(Struct, frozen=True, kw_only=True):
    """Matches, in the order of partitions and rows."""

    start: Ints
    end: Ints
    """After the last row; the start for an empty match."""
    partition: Ints
    number: Ints
    positions: Ints
    """The positions of the rows of all matches, one after another."""
    next_start: Ints
    """Where the next match of each partition may start."""
    pending: Ints
    """The row of each partition at which a match has started that is not decided; -1 for none."""
    matches: Ints
    """The number of matches of each partition."""


class Rules(Struct, frozen=True, kw_only=True):
    bound: Bound
    text: str
    rows_max: int | None
    steps_max: int


class Matcher:
    """Finds matches. It holds the states of the automaton that were built so far."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._bound = rules.bound
        clauses = rules.bound.clauses
        numbers = {name: number for number, name in enumerate(self._bound.variables)}
        self.automaton = Automaton(clauses.pattern, numbers)
        self._within_us = clauses.within_us
        self._by_column: list[list[of.Expression]] = []
        self._by_path: dict[int, list[of.Expression]] = {}
        for number, condition in enumerate(self._bound.conditions):
            own = self._bound.variables[number]
            parts = [] if condition is None else conjuncts(condition)
            self._by_column.append([each for each in parts if is_columnar(each, own)])
            rest = [each for each in parts if not is_columnar(each, own)]
            if rest:
                self._by_path[number] = rest
        self._path = Path(self._bound, self._by_path) if self._by_path else None
        self._skips_to = self._skip_targets(clauses.skip)

    @property
    def is_linear(self) -> bool:
        return self._path is None

    def _skip_targets(self, skip: of.Skip) -> frozenset[int]:
        return self._bound.numbers(skip.variable) if skip.variable is not None else frozenset()

    def satisfied(self, columns: RowColumns) -> Ints:
        """For each row, the variables whose conditions it satisfies, as bits; as far as columns can tell."""
        found = np.zeros(columns.count, dtype=np.int64)
        for number, conditions in enumerate(self._by_column):
            mask = np.ones(columns.count, dtype=np.bool_)
            leaves = columns.leaves(self._bound.variables[number])
            for each in conditions:
                mask &= as_mask(evaluate(each, leaves), columns.count)
            found |= mask.astype(np.int64) << number
        return found

    def find(self, rows: Rows) -> Found:
        self.automaton.make_room()
        return _Search(self, rows).found()

    # The rest is for _Search.

    @property
    def rules(self) -> Rules:
        return self._rules

    @property
    def path(self) -> Path | None:
        return self._path

    @property
    def skips_to(self) -> frozenset[int]:
        return self._skips_to


def is_columnar(node: of.Expression, own: str) -> bool:
    """Whether a condition of variable `own` depends only on the row and its neighbours, not on the match."""
    match node:
        case of.Navigation():
            is_here = node.variable in (None, own) and not node.is_first and node.offset == 0
            uses_match = any(isinstance(each, of.Classifier | of.MatchNumber) for each in walk(node.inner))
            return is_here and not (uses_match and (node.rows != 0 or _has_number(node.inner)))
        case of.Aggregate() | of.MatchNumber() | of.MatchTime():
            return False
    return all(is_columnar(each, own) for each in of.children(node))


def _has_number(node: of.Expression) -> bool:
    return any(isinstance(each, of.MatchNumber) for each in walk(node))


class _Search:
    """One search in sorted rows."""

    def __init__(self, matcher: Matcher, rows: Rows) -> None:
        self._matcher = matcher
        self._automaton = matcher.automaton
        self._rows = rows
        clauses = matcher.rules.bound.clauses
        self._within_us = clauses.within_us
        self._rows_max = matcher.rules.rows_max
        self._skip = clauses.skip
        satisfied = matcher.satisfied(rows.columns)
        self._satisfied: list[int] = satisfied.tolist()
        self._times_us: list[int] = rows.times_us.tolist() if self._within_us is not None else []
        self._live = [0] * rows.columns.count
        self._local: tuple[int, int, list[int]] = (-1, 0, [])
        self._is_empty_possible = (
            ACCEPT in self._automaton.first[True] or ACCEPT in self._automaton.first[False]
        )
        self._first_chosen: dict[bool, dict[int, int | None]] = {False: {}, True: {}}
        self._candidates = self._pass_backwards(satisfied)
        has_limit = self._within_us is not None or self._rows_max is not None
        self._next_last = (
            self._next_last_rows(satisfied) if has_limit and not self._is_empty_possible else None
        )
        self._start: list[int] = []
        self._end: list[int] = []
        self._partition: list[int] = []
        self._number: list[int] = []
        self._positions: list[int] = []

    def _pass_backwards(self, satisfied: Ints) -> Ints:
        """The rows at which a match may start. Sets the states of the rows."""
        rows, automaton = self._rows, self._automaton
        begin, known = rows.begin, rows.known
        tables, live, codes = automaton.next_state, self._live, self._satisfied
        for partition in self._startable(satisfied):
            state = Automaton.AT_END if rows.is_final else Automaton.OPEN
            for row in range(int(known[partition]) - 1, int(begin[partition]) - 1, -1):
                before = tables[state].get(codes[row])
                if before is None:
                    before = automaton.state_before(state, codes[row])
                live[row] = state = before
        is_known = np.zeros(rows.columns.count + 1, dtype=np.int64)
        np.add.at(is_known, begin, 1)
        np.add.at(is_known, known, -1)
        inside = np.cumsum(is_known[:-1]) > 0
        if self._is_empty_possible:
            return np.flatnonzero(inside)
        states = np.array(live, dtype=np.int64)
        firsts = {*automaton.first[False], *automaton.first[True]}
        can_start = np.array(
            [any(automaton.positions(state) >> each & 1 for each in firsts) for state in range(len(tables))]
        )
        return np.flatnonzero(inside & can_start[states]) if len(states) else np.empty(0, np.int64)

    def _next_last_rows(self, satisfied: Ints) -> list[int]:
        """From each row on, the next that satisfies a variable with which a match may end."""
        lasts = sum(1 << each for each in {self._automaton.variable[at] for at in self._automaton.last})
        at = np.where((satisfied & lasts) != 0, np.arange(len(satisfied)), len(satisfied))
        found: list[int] = np.minimum.accumulate(at[::-1])[::-1].tolist()
        return found

    def _startable(self, satisfied: Ints) -> Sequence[int]:
        """The partitions in which a row satisfies a variable that a match may start with."""
        rows, automaton = self._rows, self._automaton
        if self._is_empty_possible or len(rows.begin) == 0:
            return range(len(rows.begin))
        firsts = {
            automaton.variable[each] for choices in automaton.first.values() for each in choices if each >= 0
        }
        can_start = (satisfied & sum(1 << each for each in firsts)) != 0
        before = np.append(0, np.cumsum(can_start))
        return np.flatnonzero(before[rows.known] > before[rows.begin]).tolist()

    def found(self) -> Found:
        rows = self._rows
        next_start = np.maximum(rows.known, rows.begin)
        pending = np.full(len(rows.begin), -1, dtype=np.int64)
        matches = rows.matches.copy()
        owners = np.searchsorted(rows.begin, self._candidates, side="right") - 1
        bounds = (
            np.flatnonzero(np.append(True, owners[1:] != owners[:-1]))
            if len(owners)
            else np.empty(0, np.int64)
        )
        candidates: list[int] = self._candidates.tolist()
        for place, first in enumerate(bounds.tolist()):
            last = int(bounds[place + 1]) if place + 1 < len(bounds) else len(candidates)
            partition = int(owners[first])
            found, waits, count = self._in_partition(
                partition, candidates, first, last, int(matches[partition])
            )
            next_start[partition] = found
            pending[partition] = waits
            matches[partition] = count
        return Found(
            start=np.array(self._start, dtype=np.int64),
            end=np.array(self._end, dtype=np.int64),
            partition=np.array(self._partition, dtype=np.int64),
            number=np.array(self._number, dtype=np.int64),
            positions=np.array(self._positions, dtype=np.int64),
            next_start=next_start,
            pending=pending,
            matches=matches,
        )

    def _in_partition(
        self, partition: int, candidates: list[int], place: int, last: int, count: int
    ) -> tuple[int, int, int]:
        """Where the next match may start, at which row one is pending, and the number of matches."""
        rows = self._rows
        known = int(rows.known[partition])
        begin = int(rows.columns.first[partition])
        is_start = bool(rows.is_start[partition])
        at = -1
        attempt = self._attempt if self._matcher.is_linear else self._attempt_paths
        while place < last:
            start = candidates[place]
            if start < at:
                place = bisect_left(candidates, at, place, last)
                continue
            limit = self._limit(start, known)
            if limit <= known and self._next_last is not None and self._next_last[start] >= limit:
                place += 1
                continue
            path = attempt(start, start == begin and is_start, limit, known, partition, count + 1)
            if path is _PENDING:
                return start, start, count
            place += 1
            if path is None:
                continue
            count += 1
            end = start + len(path)
            self._start.append(start)
            self._end.append(end)
            self._partition.append(partition)
            self._number.append(count)
            self._positions += path
            if path:
                at = self._next_start(start, path, partition)
        # A match may have been skipped to behind the known rows only if it ended there.
        return max(known, at), -1, count

    def _limit(self, start: int, known: int) -> int:
        """The end of the rows that a match from here may have, if it is known; else NO_LIMIT."""
        limit = NO_LIMIT
        if self._within_us is not None:
            deadline_us = self._times_us[start] + self._within_us
            if deadline_us <= self._rows.closed_us:
                limit = bisect_left(self._times_us, deadline_us, start, known)
                if (
                    limit == known
                    and not self._rows.is_final
                    and self._lookahead_hides(start, known, deadline_us)
                ):
                    limit = NO_LIMIT
        if self._rows_max is not None and start + self._rows_max <= known:
            limit = min(limit, start + self._rows_max)
        return limit

    def _lookahead_hides(self, start: int, known: int, deadline_us: int) -> bool:
        """Whether rows of this time are there, but not used yet, because NEXT needs the row after them."""
        return (
            known < len(self._times_us)
            and self._rows.columns.same_partition(start, known)
            and (self._times_us[known] < deadline_us)
        )

    def _attempt(
        self, start: int, at_start: bool, limit: int, known: int, partition: int, number: int
    ) -> Any:
        """The positions of a match from here; None if there is none, _PENDING if it depends on rows to come."""
        automaton, live = self._automaton, self._live
        chosen = self._first_chosen[at_start]
        state = live[start]
        position = chosen.get(state, _UNKNOWN)
        if position is _UNKNOWN:
            position = chosen[state] = automaton.preferred(automaton.first[at_start], state)
        if position is None:
            return None
        path: list[int] = []
        stop = min(limit, known)
        row = start
        table = automaton.chosen
        while position >= 0:
            path.append(position)
            row += 1
            if row == stop:
                break
            state = live[row]
            following = table[position].get(state)
            if following is None:
                following = automaton.choose(position, state)
            position = following
        else:
            return path
        if self._rows.is_final and stop == known:
            return path
        if automaton.follow[position][:1] == (ACCEPT,):
            return path
        return self._attempt_within(start, at_start, limit) if limit <= known else _PENDING

    def _attempt_within(self, start: int, at_start: bool, limit: int) -> Any:
        """As `_attempt`, if the preferred path would have rows behind the limit."""
        automaton = self._automaton
        states = self._states_until(limit, start)
        base = self._local[1]
        position = automaton.preferred(automaton.first[at_start], states[start - base])
        if position is None:
            return None
        path: list[int] = []
        row = start
        while position != ACCEPT:
            path.append(position)
            row += 1
            if row == limit:
                break
            following = automaton.chosen[position].get(states[row - base])
            position = automaton.choose(position, states[row - base]) if following is None else following
        return path

    def _states_until(self, limit: int, start: int) -> list[int]:
        """The states of the rows before a limit, from a start."""
        if self._local[0] == limit and self._local[1] <= start:
            return self._local[2]
        state = Automaton.AT_LIMIT
        states: list[int] = []
        tables, codes = self._automaton.next_state, self._satisfied
        for row in range(limit - 1, start - 1, -1):
            before = tables[state].get(codes[row])
            state = self._automaton.state_before(state, codes[row]) if before is None else before
            states.append(state)
        states.reverse()
        self._local = limit, start, states
        return states

    def _attempt_paths(
        self, start: int, at_start: bool, limit: int, known: int, partition: int, number: int
    ) -> Any:
        """As `_attempt`, if conditions depend on the path: paths are tried in the order of preference."""
        automaton, live, path = self._automaton, self._live, self._matcher.path
        assert path is not None
        stop = min(limit, known)
        is_end = self._rows.is_final and stop == known
        is_open = not is_end and limit > known
        path.begin(self._rows.columns, partition, start, number)
        positions: list[int] = []
        steps = 0
        frames: list[list[Any]] = [[automaton.first[at_start], 0]]
        while frames:
            frame = frames[-1]
            targets, place = frame
            if place == len(targets):
                frames.pop()
                if positions:
                    positions.pop()
                    path.pop()
                continue
            frame[1] = place + 1
            target = targets[place]
            if target == ACCEPT:
                return positions
            row = start + len(positions)
            if row == stop:
                if is_open:
                    return _PENDING
                continue
            if not automaton.positions(live[row]) >> target & 1:
                continue
            steps += 1
            if steps > self._matcher.rules.steps_max:
                raise self._too_many_steps(partition)
            path.push(automaton.variable[target])
            if path.is_satisfied():
                positions.append(target)
                follows = automaton.follow_at_end if is_end and row + 1 == stop else automaton.follow
                frames.append([follows[target], 0])
            else:
                path.pop()
        return None

    def _too_many_steps(self, partition: int) -> PatternFailed:
        rules = self._matcher.rules
        return PatternFailed(
            f"MatchRecognize: {shown_pattern(rules.text)} took more than {rules.steps_max:,} steps at one row of "
            f"key {self._rows.describe(partition)}",
            hint="conditions that use FIRST, LAST, aggregates or other variables are tried on every path: make the "
            "pattern less ambiguous, shorten WITHIN, or set steps_max=",
        )

    def _next_start(self, start: int, path: list[int], partition: int) -> int:
        skip = self._skip
        if skip.to == "past last row":
            return start + len(path)
        if skip.to == "to next row":
            return start + 1
        variables, targets = self._automaton.variable, self._matcher.skips_to
        places = range(len(path)) if skip.to == "to first" else range(len(path) - 1, -1, -1)
        found = next((place for place in places if variables[path[place]] in targets), None)
        if not found:
            problem = (
                "has no row of it"
                if found is None
                else "begins with it, so the same match would be found again"
            )
            rules = self._matcher.rules
            raise PatternFailed(
                f"MatchRecognize: {shown_pattern(rules.text)}: AFTER MATCH SKIP {skip.to.upper()} {skip.variable}, but "
                f"a match of key {self._rows.describe(partition)} {problem}",
                hint="skip to a variable that every match has after its first row, or to the next row",
            )
        return start + found


_PENDING = object()
_UNKNOWN: Any = object()


def shown_pattern(text: str) -> str:
    """The PATTERN clause, for errors."""
    place = text.upper().find("PATTERN")
    line = " ".join(text[place:].split())
    return line if len(line) <= 80 else line[:77] + "..."
