"""The history of attempts: bounded, and readable after a crash."""

from __future__ import annotations

import stat
from pathlib import Path

from headrace.webhooks.outgoing.attempts import BUFFER_MAX, Attempt, AttemptLog, read_attempts
from headrace.webhooks.outgoing.outcomes import Answer, Verdict
from tests.webhooks.outgoing.test_lanes import message


def attempt(number: int, status: int = 204) -> Attempt:
    answer = Answer(status=status, latency_ms=1.234, error="" if status < 300 else f"HTTP {status}")
    return Attempt.of(message(number), answer, 1_000 + number)


def test_attempts_are_read_newest_first(tmp_path: Path) -> None:
    log = AttemptLog(tmp_path / "t", bytes_max=1_000_000)
    for number in range(5):
        log.append(attempt(number))
    log.flush()
    found = read_attempts(tmp_path / "t", count=3)
    assert [each.offset for each in found] == [4, 3, 2]
    assert found[0] == attempt(4)
    assert found[0].latency_ms == 1.2


def test_failures_are_kept_beside_thousands_of_successes(tmp_path: Path) -> None:
    log = AttemptLog(tmp_path, bytes_max=65_536)
    log.append(attempt(0, status=500))
    for number in range(1, 3_000):
        log.append(attempt(number))
    log.flush()
    assert all(each.offset for each in read_attempts(tmp_path, count=10_000))
    (failed,) = read_attempts(tmp_path, count=10, failed_only=True)
    assert (failed.offset, failed.verdict, failed.error) == (0, Verdict.FAILED, "HTTP 500")


def test_files_are_bounded_and_have_the_newest(tmp_path: Path) -> None:
    log = AttemptLog(tmp_path, bytes_max=65_536)
    for number in range(3 * BUFFER_MAX):
        log.append(attempt(number))
        if number % 50 == 0:
            log.flush()
    log.flush()
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 2 * 65_536
    assert read_attempts(tmp_path, count=1)[0].offset == 3 * BUFFER_MAX - 1
    assert len(read_attempts(tmp_path, count=50)) == 50


def test_line_that_a_crash_cut_off_is_skipped(tmp_path: Path) -> None:
    log = AttemptLog(tmp_path, bytes_max=65_536)
    log.append(attempt(1))
    log.flush()
    with (tmp_path / "attempts.jsonl").open("ab") as file:
        file.write(b'{"time_ms": 12')
    assert [each.offset for each in read_attempts(tmp_path, count=10)] == [1]


def test_history_is_readable_by_its_owner_only_and_may_be_removed(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    log = AttemptLog(folder, bytes_max=65_536)
    log.append(attempt(1))
    log.flush()
    path = folder / "attempts.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.unlink()
    folder.rmdir()
    log.append(attempt(2))
    log.flush()
    assert read_attempts(folder, count=1) == []
