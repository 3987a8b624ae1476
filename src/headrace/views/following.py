"""Following a selection: first its result, then each change of it, so that a client never keeps an outdated answer.

When the view has changed, the selection is run again and compared with the last result. So the steps are the same for
every store, and a switch to another version is a step like others: with the differences between the two only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from headrace.kafka.position import Position
from headrace.views.definition import Row
from headrace.views.errors import BadView
from headrace.views.query.text import parse
from headrace.views.reader import Reader
from headrace.views.selection import ROWS_MAX
from headrace.views.served import Served, ServedReader

_DIGEST_BYTES = 16


class Change(Struct, frozen=True):
    op: Literal["+", "-"]
    """+ asserts a row, - retracts one. A changed row is retracted first."""
    row: Row


class Step(Struct, frozen=True, kw_only=True):
    """What changes a result to the one at `position`: retractions first. Without changes, the result is the same."""

    changes: Sequence[Change]
    position: Position | None
    version: int
    is_snapshot: bool
    """The whole result: it replaces what the client has."""
    is_rebuilding: bool
    resume: str
    """For `follow(resume=…)`, after a lost connection."""


class Result(Struct, frozen=True, kw_only=True):
    rows: Mapping[bytes, Row]
    """By key."""
    mark: object
    position: Position | None


class Following:
    """The result that one follower has."""

    def __init__(self, text: str = "", resume: str | None = None) -> None:
        self._text = text
        self._resume = resume
        self._seen: tuple[int, bool, object] | None = None
        self._rows: Mapping[bytes, Row] = {}
        self._digest = 0

    @property
    def has_result(self) -> bool:
        return self._seen is not None

    def step(self, view: ServedReader) -> Step | None:
        """The next step; None if nothing has changed."""

        def read(reader: Reader, served: Served) -> tuple[Served, Result | None]:
            if self._seen == (served.version, served.is_rebuilding, reader.mark()):
                return served, None
            return served, self._read(view.name, reader, served)

        served, result = view.read(read)
        if result is None:
            return None
        is_first = not self.has_result
        changes = _difference(self._rows, result.rows)
        self._rows = result.rows
        self._digest = _changed_digest(self._digest, changes)
        self._seen = (served.version, served.is_rebuilding, result.mark)
        resume = f"{(result.position or Position({})).token()}.{self._digest:x}"
        is_known = is_first and self._resume is not None and _digest_in(self._resume) == self._digest
        return Step(
            changes=() if is_known else changes,
            position=result.position,
            version=served.version,
            is_snapshot=is_first and not is_known,
            is_rebuilding=served.is_rebuilding,
            resume=resume,
        )

    def _read(self, name: str, reader: Reader, served: Served) -> Result:
        key = served.definition.key
        with reader.snapshot():
            # Before the rows: in a store without snapshots, a change after it is found with the next step.
            mark, position = reader.mark(), reader.position()
            selection = parse(self._text, columns=reader.columns(), key=key, limit=ROWS_MAX + 1)
            rows = reader.select(selection)
        if len(rows) > ROWS_MAX:
            raise BadView(
                f"the result has more than {ROWS_MAX:,} rows of view {name}, too many to follow",
                hint="select fewer with WHERE, or the first ones with ORDER BY … LIMIT …",
            )
        by_key = {_encoded([(each, row[each]) for each in key]): row for row in rows}
        return Result(rows=by_key, mark=mark, position=position)


def _difference(before: Mapping[bytes, Row], after: Mapping[bytes, Row]) -> list[Change]:
    retracted = [Change("-", row) for key, row in before.items() if key not in after or after[key] != row]
    asserted = [Change("+", row) for key, row in after.items() if key not in before or before[key] != row]
    return retracted + asserted


def _changed_digest(digest: int, changes: Sequence[Change]) -> int:
    """A sum of hashes: the same for the same rows, in whatever order and by whatever changes they came."""
    for change in changes:
        hashed = hashlib.blake2b(_encoded(change.row), digest_size=_DIGEST_BYTES).digest()
        digest += int.from_bytes(hashed, "big") * (1 if change.op == "+" else -1)
    return int(digest % 2 ** (8 * _DIGEST_BYTES))


def _digest_in(resume: str) -> int | None:
    try:
        return int(resume.rpartition(".")[2], 16)
    except ValueError:
        raise BadView(
            f"{resume[:80]!r} is not where a follower can resume", hint="pass `resume` of a step unchanged"
        ) from None


def _encoded(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted", enc_hook=str)
