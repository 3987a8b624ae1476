"""Erases a key, and kills itself after a step: python -m tests.erasure.eraser_process BOOTSTRAP TOPIC KEY STEP

Without steps left it continues to the end. It prints the id of the erasure.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from headrace.erasure import Eraser, Subject
from headrace.kafka.cluster import Cluster


def run(bootstrap: str, topic: str, key: str, step: int) -> tuple[str, bool]:
    """The id of the erasure, and whether the process was killed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.erasure.eraser_process", bootstrap, topic, key, str(step)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.returncode
    return done.stdout.split("\n")[0], done.returncode != 0


def main() -> None:
    bootstrap, topic, key, step = sys.argv[1:]
    left = int(step)

    def count_down(_step: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with Eraser(Cluster(bootstrap, timeout_s=30)) as eraser:
        request = eraser.request(Subject(key=key), [topic])
        print(request.id, flush=True)
    with Eraser(Cluster(bootstrap, timeout_s=30), at_step=count_down) as eraser:
        eraser.work(request.id, wait_s=60)


if __name__ == "__main__":
    main()
