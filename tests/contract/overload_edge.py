"""An edge in a process of its own, which a test may kill: it offers numbers, and prints each that was taken.

python -m tests.contract.overload_edge BOOTSTRAP TOPIC POLICY DATA_DIR FIRST COUNT
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from headrace.edges.event import Event
from headrace.edges.overload import Intake
from headrace.edges.settings import edge_settings


def main() -> None:
    bootstrap, topic, policy, data_dir, first, count = sys.argv[1:]
    settings = edge_settings(overload=policy, data_dir=Path(data_dir))
    intake = Intake({"bootstrap.servers": bootstrap, "log_level": 0}, settings, name="contract")
    for number in range(int(first), int(first) + int(count)):
        if intake.put([Event(topic=topic, value=b"%d" % number)], timeout_s=60):
            print(number, flush=True)
    time.sleep(600)  # until it is killed


if __name__ == "__main__":
    main()
