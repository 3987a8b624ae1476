"""A worker in a process of its own: python -m tests.events.worker_process BOOTSTRAP TOPIC [SESSION_TIMEOUT_MS]

It prints a line when a partition is assigned to it, and runs until it is killed.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from headrace.events import CommandWorker, EventStore
from tests.events.accounts import Account

SESSION_TIMEOUT_MS = 6000
"""The smallest that Apache Kafka allows by default."""


def start(bootstrap: str, topic: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.events.worker_process", bootstrap, topic],
        stdout=subprocess.PIPE,
        text=True,
    )


def main() -> None:
    bootstrap, topic = sys.argv[1:]
    with (
        EventStore(topic, Account(), bootstrap=bootstrap) as store,
        CommandWorker(store, session_timeout_ms=SESSION_TIMEOUT_MS) as worker,
    ):

        def report() -> None:
            while not worker.assigned():
                time.sleep(0.05)
            print("assigned", flush=True)

        threading.Thread(target=report, daemon=True).start()
        worker.run()


if __name__ == "__main__":
    main()
