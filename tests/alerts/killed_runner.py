"""Runs alerts, and kills itself at a point: python -m tests.alerts.killed_runner BOOTSTRAP FOLDER POINT NUMBER."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from headrace.alerts import points
from headrace.alerts.catalog import Alerts
from headrace.alerts.points import Point
from headrace.alerts.runner import AlertsRun
from headrace.kafka.cluster import Cluster


def main(bootstrap: str, folder: str, wanted: str, number: str) -> None:
    left = int(number)

    def kill(point: Point) -> None:
        nonlocal left
        if point == wanted:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    points.hooks.append(kill)
    AlertsRun(
        Alerts(Path(folder)),
        Cluster(bootstrap, timeout_s=30),
        is_stopping=lambda: False,
        on_ready=lambda _: print("ready", flush=True),
        pause_s_min=0.05,
    ).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
