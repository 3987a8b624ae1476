"""The lock of a running process."""

from __future__ import annotations

import subprocess
import sys
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
