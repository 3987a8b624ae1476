"""`headrace run`: a live stream on a broker of its own."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

from tests.cli.conftest import COMMAND, next_line, started

ADDRESS = re.compile(r"broker at (127\.0\.0\.1:\d+);")
LOOK = re.compile(r"clicks (\d+) records .* \| .*click-counter lag (\d+)")


def test_ends_by_itself_and_its_stream_was_written(tmp_path: Path) -> None:
    command = [*COMMAND, "run", "--data-dir", str(tmp_path / "data"), "--seconds", "4", "--rate", "50"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "stopped"
    assert list((tmp_path / "data").glob("clicks-*/*.log"))


def test_interrupt_ends_it_cleanly_and_the_broker_too(tmp_path: Path) -> None:
    with started("run", "--data-dir", str(tmp_path / "data")) as process:
        found = ADDRESS.search(next_line(process))
        assert found is not None
        # Until records are written and a group that follows them is seen.
        while not ((look := LOOK.search(next_line(process))) and int(look[1]) > 0):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)

    assert process.returncode == 0, err
    assert out.splitlines()[-1] == "stopped"
    check = [*COMMAND, "broker", "--check", "--bootstrap", found[1]]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 1


def test_broker_that_cannot_start_is_said_with_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where a folder should be")
    command = [*COMMAND, "run", "--data-dir", str(tmp_path / "data"), "--seconds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 1
    assert "the broker did not start" in done.stderr
    assert str(tmp_path / "data") in done.stderr
