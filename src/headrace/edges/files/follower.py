"""Follows log files: reads them in turn, and hands their lines to the intake.

One thread does it. While the intake has no room, nothing is read: the files are the buffer. The position of a file
moves behind an event when the broker has acknowledged it. A killed edge delivers the last events again: at-least-once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headrace.clock import Clock, SystemClock
from headrace.dead_letters import GROUP_HEADER, REASON_HEADER, dead_letter_topic
from headrace.edges.event import Event, Headers
from headrace.edges.files.followed_file import Batch, FollowedFile
from headrace.edges.files.followed_files import FollowedFiles
from headrace.edges.files.lines import Line
from headrace.edges.files.parsing import NotParsed, Parse
from headrace.edges.files.positions import Positions
from headrace.edges.files.settings import FilesSettings
from headrace.edges.overload import Intake

PIECE_BYTES = 256 * 1024
"""Read of a file at once, before it is another file's turn."""

POSITIONS_S = 0.5
"""Between two writes of the positions: so much is delivered again after `kill -9`."""

WAIT_S = 0.1
LOOK_SHARE = 10
"""Looking for files takes at most one part in so many of the time, however many there are."""

FILE_HEADER, OFFSET_HEADER, ID_HEADER = "file", "offset", "file.id"


class FileFollower:
    def __init__(
        self,
        settings: FilesSettings,
        intake: Intake,
        positions: Positions,
        *,
        parse: Parse | None = None,
        clock: Clock | None = None,
        on_problem: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """`on_problem` gets texts for people."""
        self._settings = settings
        self._intake = intake
        self._parse = parse
        self._clock = clock or SystemClock()
        self.files = FollowedFiles(settings, positions, on_problem=on_problem)
        self._waiting: tuple[list[Event], Batch | None] | None = None
        self._next_look_s = self._next_write_s = 0.0
        self.lines = 0
        self.not_parsed = 0

    def lost(self) -> dict[str, int]:
        """For the metrics of the process."""
        counts = self.files.counts
        return {
            "too long": self.files.too_long,
            "not parsed": self.not_parsed,
            "gone": counts["gone"],
            "truncated": counts["truncated"],
            "unreadable": len(self.files.unreadable),
        }

    def run(self, is_stopping: Callable[[], bool]) -> None:
        """Until it is stopped, or has read everything once. Then what was written last is read, a piece of each file.

        What was not delivered is read again by the next run.
        """
        while not is_stopping():
            if self.step():
                continue
            if self._settings.is_once and self._is_done():
                return
            time.sleep(min(WAIT_S, self._settings.poll_s))
        self._next_look_s = 0.0
        self.step()

    def step(self) -> bool:
        """Whether there was something to do."""
        now_s = self._clock.monotonic_s()
        self._settle(now_s)
        if self._waiting is not None and not self._hand_over(*self._waiting):
            self._intake.wait_for_room(WAIT_S)
            return True
        if now_s >= self._next_look_s:
            self.files.look()
            took_s = self._clock.monotonic_s() - now_s
            self._next_look_s = now_s + max(self._settings.poll_s, took_s * LOOK_SHARE)
        is_any = False
        for file in self.files:
            if self._waiting is None:
                is_any |= self._step_of(file, now_s)
        return is_any

    def close(self) -> None:
        """After the intake is closed: write the positions of what was delivered."""
        self._settle(self._clock.monotonic_s())
        self.files.write_positions()
        self.files.close()

    def _settle(self, now_s: float) -> None:
        for file in self.files:
            file.settle()
        if now_s >= self._next_write_s:
            self.files.write_positions()
            self._next_write_s = now_s + POSITIONS_S

    def _is_done(self) -> bool:
        return self._waiting is None and all(
            file.is_read and file.is_settled and not file.has_unfinished for file in self.files
        )

    def _step_of(self, file: FollowedFile, now_s: float) -> bool:
        """Read a piece of the file, or finish what has waited long enough. Whether there was something."""
        if file.changed_s is None:
            file.changed_s = now_s
        if not file.is_read:
            if not self.files.open(file):
                return False
            file.changed_s = now_s
            self._emit(file, file.read(PIECE_BYTES))
            return True
        idle_s = now_s - file.changed_s
        is_over = file.is_gone or (not file.is_at_path and idle_s >= self._settings.rotate_wait_s)
        lines = self._overdue(file, idle_s, is_over=is_over) if file.has_unfinished else []
        if lines:
            self.files.open(file)
            self._emit(file, lines)
            return True
        if is_over and file.is_settled and not file.has_unfinished:
            self.files.let_go(file)
            return True
        return False

    def _overdue(self, file: FollowedFile, idle_s: float, *, is_over: bool) -> list[Line]:
        """The last lines of a file that are events although they may not be complete."""
        settings = self._settings
        partial_wait_s = settings.partial_wait_s
        if is_over or settings.is_once or (partial_wait_s is not None and idle_s >= partial_wait_s):
            return file.finish()
        if file.has_open_event and not file.has_partial_line and idle_s >= settings.multiline_wait_s:
            return file.finish_event()
        return []

    # --- events ---

    def _emit(self, file: FollowedFile, lines: Sequence[Line]) -> None:
        if not lines:
            return
        self.lines += len(lines)
        batch = file.begin_batch(len(lines))
        self._hand_over(self._events(file, lines), batch)

    def _hand_over(self, events: list[Event], batch: Batch | None) -> bool:
        is_taken = self._intake.offer(events, None if batch is None else batch.on_fate)
        self._waiting = None if is_taken else (events, batch)
        return is_taken

    def _events(self, file: FollowedFile, lines: Sequence[Line]) -> list[Event]:
        topic = self._settings.topic
        key = file.name.encode(errors="surrogateescape") if self._settings.key_of == "file" else None
        headers: Headers = ()
        if self._settings.has_headers:
            identity = f"{file.identity.device}-{file.identity.inode}".encode()
            headers = (
                (FILE_HEADER, file.name.encode(errors="surrogateescape")),
                (ID_HEADER, identity),
            )
        events = []
        for offset, line in lines:
            own = (*headers, (OFFSET_HEADER, b"%d" % offset)) if headers else ()
            if self._parse is None:
                events.append(Event(topic=topic, value=line, key=key, headers=own))
                continue
            try:
                events.append(Event(topic=topic, value=self._parse(line), key=key, headers=own))
            except NotParsed as error:
                self.not_parsed += 1
                events.append(self._letter(line, key, own, str(error)))
        return events

    def _letter(self, line: bytes, key: bytes | None, headers: Headers, reason: str) -> Event:
        errors = ((GROUP_HEADER, self._settings.name.encode()), (REASON_HEADER, reason.encode()))
        return Event(
            topic=dead_letter_topic(self._settings.topic), value=line, key=key, headers=(*headers, *errors)
        )
