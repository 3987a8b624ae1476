"""The lock of a running process."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
from pathlib import Path

from headrace.process_lock import ProcessLock

HOLDER = """
import sys, time
from pathlib import Path
from headrace.process_lock import ProcessLock
lock = ProcessLock(Path(sys.argv[1]))
assert lock.take()
print("held", flush=True)
time.sleep(60)
"""


def test_lock_is_held_once_and_released(tmp_path: Path) -> None:
    mine, other = (ProcessLock(tmp_path / "folder" / "lock") for _ in range(2))
    assert not mine.is_taken()
    assert mine.take()
    assert mine.is_taken()
    assert other.is_taken()
    assert not other.take()
    mine.release()
    assert not other.is_taken()


def test_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert not ProcessLock(path).take()
        holder.kill()
    assert ProcessLock(path).take()


def test_lock_is_taken_while_others_look_at_it(tmp_path: Path) -> None:
    """Two looks do not see each other, and none of them keeps a process from taking the lock."""
    path = tmp_path / "lock"
    ProcessLock(path).is_taken()
    is_ending = threading.Event()

    def look() -> None:
        while not is_ending.is_set():
            ProcessLock(path).is_taken()

    looking = [threading.Thread(target=look) for _ in range(3)]
    for thread in looking:
        thread.start()
    lock = ProcessLock(path)
    try:
        for _ in range(200):
            # An open file that is shared stands for a look of another process at the same moment.
            with path.open("a") as probe:
                fcntl.flock(probe, fcntl.LOCK_SH)
                assert not ProcessLock(path).is_taken()
        for _ in range(200):
            assert lock.take()
            lock.release()
    finally:
        is_ending.set()
        for thread in looking:
            thread.join()
