"""A writer in a process of its own: python -m tests.events.writer_process BOOTSTRAP TOPIC NAME COUNT

It appends COUNT events to one account, each with the version that it has loaded, and prints "VERSION NOTE" for each one
that was acknowledged. Conflicts are tried again with the next version.
"""

from __future__ import annotations

import subprocess
import sys

from headrace.events import EventStore, VersionConflict
from tests.events.accounts import Account, Deposited

ACCOUNT = "ada"


def start(bootstrap: str, topic: str, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.events.writer_process", bootstrap, topic, name, str(count)],
        stdout=subprocess.PIPE,
        text=True,
    )


def main() -> None:
    bootstrap, topic, name, count = sys.argv[1:]
    conflicts = 0
    with EventStore(topic, Account(), bootstrap=bootstrap) as store:
        version = store.load(ACCOUNT).version
        for number in range(int(count)):
            note = f"{name}-{number}"
            while True:
                try:
                    store.append(ACCOUNT, [Deposited(amount=1, note=note)], expected_version=version)
                    version += 1
                    break
                except VersionConflict as conflict:
                    conflicts += 1
                    version = conflict.version
            print(version, note, flush=True)
    print("conflicts", conflicts, flush=True)


if __name__ == "__main__":
    main()
