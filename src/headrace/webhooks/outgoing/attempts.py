"""The history of attempts of a target: bounded files of JSON lines that survive a restart.

    attempts.jsonl, attempts.1.jsonl    all attempts, the newest last; the second file has the older half
    failures.jsonl, failures.1.jsonl    failed ones again, which thousands of successes would otherwise push out

They have no content of messages and nothing that a receiver wrote.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.webhooks.outgoing.message import Outgoing
from headrace.webhooks.outgoing.outcomes import Answer, Verdict

ATTEMPTS, FAILURES = "attempts", "failures"

BUFFER_MAX = 1_000
"""Lines that wait for the next flush; more of them are written immediately."""


class Attempt(Struct, frozen=True, kw_only=True):
    time_ms: int
    message_id: str
    topic: str
    partition: int
    offset: int
    number: int
    """of the attempts for this message; it starts again after a restart"""
    verdict: Verdict
    status: int | None
    latency_ms: float
    error: str
    next_ms: int | None = None
    """When the next attempt is due; None: there is none, or the broker decides"""

    @classmethod
    def of(cls, message: Outgoing, answer: Answer, now_ms: int, next_ms: int | None = None) -> Attempt:
        return cls(
            time_ms=now_ms,
            message_id=message.message_id,
            topic=message.origin.topic,
            partition=message.origin.partition,
            offset=message.origin.offset,
            number=message.attempts,
            verdict=answer.verdict,
            status=answer.status,
            latency_ms=round(answer.latency_ms, 1),
            error=answer.error,
            next_ms=next_ms,
        )


class AttemptLog:
    """The writing side, of one process."""

    def __init__(self, folder: Path, *, bytes_max: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._encode = msgspec.json.Encoder().encode
        self._files = {name: _RotatedFile(folder, name, bytes_max) for name in (ATTEMPTS, FAILURES)}

    def append(self, attempt: Attempt) -> None:
        line = self._encode(attempt)
        self._files[ATTEMPTS].append(line)
        if attempt.verdict is not Verdict.DELIVERED:
            self._files[FAILURES].append(line)

    def flush(self) -> None:
        for file in self._files.values():
            file.flush()


class _RotatedFile:
    def __init__(self, folder: Path, name: str, bytes_max: int) -> None:
        self._path, self._older = _paths(folder, name)
        self._bytes_max = bytes_max // 2
        self._lines: list[bytes] = []

    def append(self, line: bytes) -> None:
        self._lines.append(line)
        if len(self._lines) >= BUFFER_MAX:
            self.flush()

    def flush(self) -> None:
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        try:
            with open(self._path, "ab", opener=_private) as file:
                file.write(b"\n".join((*lines, b"")))
                size = file.tell()
        except OSError:
            return  # the disk is full, or the target was removed, and its history with it
        if size >= self._bytes_max:
            self._path.replace(self._older)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def read_attempts(folder: Path, *, count: int, failed_only: bool = False) -> list[Attempt]:
    """The last ones, the newest first. A line that a crash cut off is skipped."""
    newer, older = _paths(folder, FAILURES if failed_only else ATTEMPTS)
    found = deque(_read(older), maxlen=count)
    found.extend(_read(newer))
    return [*islice(reversed(found), count)]


def _read(path: Path) -> Iterator[Attempt]:
    decoder = msgspec.json.Decoder(Attempt)
    try:
        with path.open("rb") as file:
            for line in file:
                try:
                    yield decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue
    except FileNotFoundError:
        return


def _paths(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.jsonl", folder / f"{name}.1.jsonl"
