"""A capture of Headrace, once, in a process of its own: how long it took, and its peak of resident memory.

The time is that of the whole run: it includes connecting to the database and to the broker.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from headrace.cdc.capture import Capture, Captures
from headrace.cdc.runner import CaptureRun
from headrace.kafka.cluster import Cluster


def main(arguments: dict[str, Any]) -> dict[str, float]:
    capture = Capture(
        name=arguments["capture"],
        address=arguments["address"],
        tables=tuple(arguments["tables"]),
        partitions=1,
    )
    folder = Captures(Path(arguments["folder"])).add(capture)
    run = CaptureRun(capture, folder, Cluster(arguments["bootstrap"], timeout_s=60), once=True)
    started_s = time.perf_counter()
    run.run()
    took_s = time.perf_counter() - started_s
    return {
        "seconds": took_s,
        "events": run.status.events,
        "resident_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
