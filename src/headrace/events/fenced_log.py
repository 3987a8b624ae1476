"""Compare-and-append on one partition: a database of its log, and its writer while this process owns it.

`transact` rests on the fence: whatever was decided from a database that is out of date can't be written, because the
process that made it out of date has opened the partition since.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from headrace.events.errors import EventsError, OutcomeUnknown, StoreUnavailable, WriterFenced
from headrace.events.fenced_writer import FencedWriter, GroupOffsets, WriterLost
from headrace.events.followed_log import FollowedLog, LogSetup
from headrace.events.log_database import LogDatabase
from headrace.events.records import InRecord, OutRecord

TAKEOVERS_MAX = 20
"""Two processes that write to the same partition take it from each other. Each gets its turn within a few attempts."""

BACK_OFF_S_MAX = 0.1
"""Random, so that two processes do not keep step."""

logger = logging.getLogger("headrace.events")


class Draft(Protocol):
    """What one transaction writes. The database has it as soon as it is drafted."""

    records: list[OutRecord]


T = TypeVar("T")
D = TypeVar("D", bound=Draft)


class Content(Protocol[D]):
    """What a kind of log has in its records."""

    @property
    def database(self) -> LogDatabase: ...

    def apply(self, record: InRecord) -> None:
        """Add a record of the log to the database; it may have it already."""

    def draft(self) -> D: ...

    def on_committed(self, draft: D, offsets: Sequence[int]) -> None:
        """The records of the draft have these offsets."""

    def has(self, draft: D) -> bool:
        """Whether the draft was committed, as far as the database shows it."""


class _Outcome(Generic[T]):
    """The result of the work, or its error."""

    def __init__(self, results: Sequence[T], error: Exception | None) -> None:
        self._results = results
        self.error = error

    def get(self) -> T:
        if self.error is not None:
            raise self.error
        return self._results[0]


def _run(work: Callable[[D], T], draft: D) -> _Outcome[T]:
    try:
        return _Outcome([work(draft)], None)
    except Exception as error:
        return _Outcome([], error)


class FencedLog(Generic[D]):
    """Threads take turns. Nothing connects before the first call."""

    def __init__(self, setup: LogSetup, number: int, content: Content[D]) -> None:
        self.number = number
        self.lock = threading.RLock()
        self._setup = setup
        self._content = content
        self.following = FollowedLog(setup, number, content.database, content.apply)
        self._writer: FencedWriter | None = None
        self._is_fenced = False

    # Ownership

    def own(self) -> bool:
        """Become the one writer, unless this process is already; then read everything that was committed before.

        Whether it was read now. False means that another process may own the partition since.
        """
        with self.lock:
            if self._writer is not None:
                return False
            if self._is_fenced:
                raise self._fenced()
            setup = self._setup
            self._writer = FencedWriter(
                setup.cluster.client_config(),
                topic=setup.topics[0],
                partition=self.number,
                message_bytes_max=setup.message_bytes_max,
                timeout_s=setup.timeout_s,
            )
            try:
                self.following.read_all()
            except BaseException:
                self.disown()
                raise
            return True

    def disown(self) -> None:
        """Close the writer. The next `transact` fences whoever owns the partition by then."""
        with self.lock:
            self._is_fenced = False
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def close(self) -> None:
        with self.lock:
            self.disown()
            self.following.close()

    # Writing

    def transact(
        self, work: Callable[[D], T], *, positions: GroupOffsets | None = None, takeover: bool = True
    ) -> T:
        """Run the work on the current database, and commit what it drafts; all of it, or nothing.

        If another process has taken the partition, it is taken back and the work runs again on the new state. Without
        `takeover`, WriterFenced is raised instead, now and until `disown`.
        """
        deadline_s = time.monotonic() + 2 * self._setup.timeout_s
        lost: WriterLost | None = None
        for attempt in range(TAKEOVERS_MAX):
            with self.lock:
                is_current = self.own()
                draft = self._content.draft()
                with self.following.transaction() as finish:
                    outcome = _run(work, draft)
                    is_written = outcome.error is None and (bool(draft.records) or positions is not None)
                    lost = self._commit(draft, positions, finish) if is_written else None
                if not is_written:
                    # No fence checks what is not written: a conflict or a result may come from an old state.
                    if is_current or not self.following.read_all():
                        return outcome.get()
                    continue
                if lost is None or self._was_committed(draft, lost, takeover=takeover):
                    return outcome.get()
                if not takeover:
                    self._is_fenced = lost.is_fenced
                if not takeover or time.monotonic() > deadline_s:
                    break
            logger.info("%s-%s: %s", self._setup.topics[0], self.number, lost)
            time.sleep(random.uniform(0, BACK_OFF_S_MAX) * min(attempt, 5))
        if lost is not None and not lost.is_fenced:
            raise StoreUnavailable(f"{lost}; nothing was written", hint="it can be tried again")
        raise self._fenced()

    def _fenced(self) -> WriterFenced:
        return WriterFenced(
            f"another process has opened {self._setup.topics[0]}-{self.number}; nothing was written",
            hint="one process writes to a partition at a time; route commands to it, or stop the other one",
        )

    def _commit(
        self, draft: D, positions: GroupOffsets | None, finish: Callable[[], None]
    ) -> WriterLost | None:
        assert self._writer is not None
        try:
            offsets = self._writer.commit(draft.records, positions)
        except WriterLost as lost:
            return lost
        except EventsError:
            self.disown()
            raise
        self._content.on_committed(draft, offsets)
        self.following.advance(draft.records, offsets)
        finish()
        return None

    def _was_committed(self, draft: D, lost: WriterLost, *, takeover: bool) -> bool:
        """Find out from the log, by reading to its end: the transaction has ended when that is stable."""
        self.disown()
        try:
            if takeover or not lost.is_fenced:
                self.own()
            else:
                self.following.read_all()
        except EventsError as error:
            raise OutcomeUnknown(
                f"{lost}; whether the events are written is unknown: {error.message}",
                hint="try again with the same expected version or command id when the broker is available",
            ) from error
        return self._content.has(draft)

    def refresh(self) -> None:
        """Read what other processes have committed."""
        with self.lock:
            self.following.refresh()
