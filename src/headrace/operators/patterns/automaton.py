"""A row pattern as an automaton, and the sets of its positions from which a match can be completed.

A position is an occurrence of a variable in the pattern, after repetitions are written out. From each position, the
positions that may follow are ordered by preference: that of alternations, and of greedy and reluctant quantifiers.

A match is found in two passes, in time linear in the rows. Backwards, each row gets the set of positions that it may
have in a completed match; few different sets occur, so they are the states of a deterministic automaton, built when
they are needed. Forwards, the most preferred position of that set is taken at each row: no step has to be undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace.operators.patterns import syntax as of

ACCEPT = -1
"""Follows a position if the match may end there."""

POSITIONS_MAX = 20_000
FOLLOWS_MAX = 1_000_000
"""Bounds of an automaton: repetitions and permutations write out the pattern many times."""

STATES_MAX = 50_000
"""The states that are stored before they are built again."""


class TooLarge(Exception):
    """The pattern has more positions than possible."""


class Program:
    """The instructions of a pattern: match a row, choose, check an anchor."""

    def __init__(self, pattern: of.Pattern, numbers: Mapping[str, int]) -> None:
        self._numbers = numbers
        self._is_excluded = False
        self.variable: list[int] = []
        """Of each position."""
        self.excluded: list[bool] = []
        self.next: list[int] = []
        """The instruction after each position."""
        self._choices: list[list[int]] = []
        self._anchors: list[tuple[bool, int]] = []
        self.start = self._compiled(pattern, _END)

    def _compiled(self, pattern: of.Pattern, then: int) -> int:
        """The first instruction of the pattern, which continues at `then`."""
        match pattern:
            case of.Variable():
                return self._position(self._numbers[pattern.name], then)
            case of.Empty():
                return then
            case of.Anchor():
                self._anchors.append((pattern.is_start, then))
                return _code(len(self._anchors) - 1, _ANCHOR)
            case of.Sequence():
                for part in reversed(pattern.parts):
                    then = self._compiled(part, then)
                return then
            case of.Alternation():
                return self._choice([self._compiled(each, then) for each in pattern.choices])
            case of.Permutation():
                return self._permuted(pattern.parts, then)
            case of.Exclusion():
                before, self._is_excluded = self._is_excluded, True
                found = self._compiled(pattern.part, then)
                self._is_excluded = before
                return found
        return self._repeated(pattern, then)

    def _position(self, variable: int, then: int) -> int:
        if len(self.variable) == POSITIONS_MAX:
            raise TooLarge
        self.variable.append(variable)
        self.excluded.append(self._is_excluded)
        self.next.append(then)
        return _code(len(self.variable) - 1, _POSITION)

    def _choice(self, targets: list[int]) -> int:
        if len(self._choices) == 2 * POSITIONS_MAX:
            raise TooLarge
        self._choices.append(targets)
        return _code(len(self._choices) - 1, _CHOICE)

    def _repeated(self, pattern: of.Repetition, then: int) -> int:
        entry = then
        if pattern.most is None:
            entry = self._choice([])
            body = self._compiled(pattern.part, entry)
            # An iteration without a row comes back to a choice that was made already, and ends there (`follows`).
            self._choices[_place(entry)].extend([body, then] if pattern.is_greedy else [then, body])
        else:
            for _ in range(pattern.most - pattern.least):
                body = self._compiled(pattern.part, entry)
                entry = self._choice([body, then] if pattern.is_greedy else [then, body])
        for _ in range(pattern.least):
            entry = self._compiled(pattern.part, entry)
        return entry

    def _permuted(self, parts: Sequence[of.Pattern], then: int) -> int:
        """All orders of the parts, the given one first."""
        if len(parts) <= 1:
            return self._compiled(parts[0], then) if parts else then
        targets = []
        for place, part in enumerate(parts):
            rest = self._permuted([*parts[:place], *parts[place + 1 :]], then)
            targets.append(self._compiled(part, rest))
        return self._choice(targets)

    @property
    def has_anchors(self) -> bool:
        return bool(self._anchors)

    def follows(self, instruction: int, *, at_start: bool = False, at_end: bool = False) -> tuple[int, ...]:
        """The positions that an instruction leads to without a row, the most preferred first."""
        found: list[int] = []
        seen: set[int] = set()
        waiting = [instruction]
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            kind, place = current % 4, _place(current)
            if kind == _POSITION:
                found.append(place)
            elif kind == _ACCEPT:
                found.append(ACCEPT)
            elif kind == _CHOICE:
                waiting.extend(reversed(self._choices[place]))
            else:
                is_start, then = self._anchors[place]
                if at_start if is_start else at_end:
                    waiting.append(then)
        return tuple(found)


_POSITION, _CHOICE, _ANCHOR, _ACCEPT = range(4)
_END = _ACCEPT


def _code(place: int, kind: int) -> int:
    return place * 4 + kind


def _place(code: int) -> int:
    return code // 4


class Automaton:
    """The positions of a pattern, and the states of the backward pass.

    State 0 is the end of the rows; state 1 is the end of the rows so far, after which any may follow; state 2 is the
    end of the time of a match, which is not the end of the rows.
    """

    AT_END, OPEN, AT_LIMIT = range(3)

    def __init__(self, pattern: of.Pattern, numbers: Mapping[str, int]) -> None:
        program = Program(pattern, numbers)
        self.variable = program.variable
        self.excluded = program.excluded
        count = len(self.variable)
        self.follow = _all_follows(program, at_end=False)
        self.follow_at_end = _all_follows(program, at_end=True) if program.has_anchors else self.follow
        self.first = {
            at_start: program.follows(program.start, at_start=at_start) for at_start in (False, True)
        }
        self.last = [
            position
            for position, each in enumerate(zip(self.follow, self.follow_at_end, strict=True))
            if ACCEPT in each[0] or ACCEPT in each[1]
        ]
        """The positions of the last row of a match."""
        self._of_variable = [0] * len(numbers)
        for position, variable in enumerate(self.variable):
            self._of_variable[variable] |= 1 << position
        self._follow_mask = [_mask(each) for each in self.follow]
        self._before_accept = _mask_where(ACCEPT in each for each in self.follow)
        self._before_accept_at_end = _mask_where(ACCEPT in each for each in self.follow_at_end)
        self._everything = (1 << count) - 1
        self._reset()

    def _reset(self) -> None:
        self._sets: list[int] = []
        """The positions that a row may have, by state."""
        self._before: list[int] = []
        """The positions that the row before may have, as far as the rows after it are concerned, by state."""
        self._number: dict[int, int] = {}
        self.next_state: list[dict[int, int]] = []
        """The state of a row, by the state of the next row and the variables that the row satisfies."""
        self._allowed: dict[int, int] = {}
        self.chosen: list[dict[int, int]] = [{} for _ in self.variable]
        """The next position, by position and the state of the next row."""
        for before in (self._before_accept_at_end, self._everything, self._before_accept):
            self._sets.append(0)
            self._before.append(before)
            self.next_state.append({})

    def positions(self, state: int) -> int:
        return self._sets[state]

    def make_room(self) -> None:
        """Forget the states if there are too many. Call it between passes."""
        if len(self._sets) > STATES_MAX:
            self._reset()

    def state_before(self, state: int, satisfied: int) -> int:
        """The state of a row with these variables, before a row in `state`."""
        allowed = self._allowed.get(satisfied)
        if allowed is None:
            allowed = 0
            for variable, positions in enumerate(self._of_variable):
                if satisfied >> variable & 1:
                    allowed |= positions
            self._allowed[satisfied] = allowed
        found = self._state(allowed & self._before[state])
        self.next_state[state][satisfied] = found
        return found

    def _state(self, positions: int) -> int:
        number = self._number.get(positions)
        if number is None:
            number = len(self._sets)
            self._number[positions] = number
            self._sets.append(positions)
            before = self._before_accept
            for position, mask in enumerate(self._follow_mask):
                if mask & positions:
                    before |= 1 << position
            self._before.append(before)
            self.next_state.append({})
        return number

    def choose(self, position: int, state: int) -> int:
        """The most preferred position after this one, at a row in `state`; ACCEPT to end the match."""
        found = self.preferred(self.follow[position], state)
        assert found is not None
        self.chosen[position][state] = found
        return found

    def preferred(self, targets: tuple[int, ...], state: int) -> int | None:
        positions = self._sets[state]
        return next((each for each in targets if each == ACCEPT or positions >> each & 1), None)


def _all_follows(program: Program, *, at_end: bool) -> list[tuple[int, ...]]:
    """The positions that follow each one."""
    found: list[tuple[int, ...]] = []
    count = 0
    for each in program.next:
        found.append(program.follows(each, at_end=at_end))
        count += len(found[-1])
        if count > FOLLOWS_MAX:
            raise TooLarge
    return found


def _mask(positions: tuple[int, ...]) -> int:
    found = 0
    for each in positions:
        if each != ACCEPT:
            found |= 1 << each
    return found


def _mask_where(conditions: Iterable[bool]) -> int:
    found = 0
    for position, is_true in enumerate(conditions):
        if is_true:
            found |= 1 << position
    return found
