"""A web server's log becomes a topic while it is rotated, and a consumer counts its errors per minute.

python examples/web_server_log.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer

from headrace import Broker

LINE = (
    '203.0.113.9 - - [18/Nov/2026:08:{minute}:{second:02} +0000] "GET /cart HTTP/1.1" {status} 512 "-" "-"\n'
)
REQUESTS = 20
MINUTES = 3


def lines(minute: int, *, errors: int) -> str:
    """The requests of a minute, of which so many fail."""
    return "".join(
        LINE.format(minute=minute, second=second, status=500 if second < errors else 200)
        for second in range(REQUESTS)
    )


def errors_by_minute(bootstrap: str) -> Counter[str]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "errors", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["web-logs"])
    errors: Counter[str] = Counter()
    for _ in range(MINUTES * REQUESTS):
        message = consumer.poll(30)
        assert message is not None
        request = json.loads(message.value() or b"")
        errors[request["time"][:16]] += request["status"] >= 500
    consumer.close()
    return errors


with Broker() as broker, tempfile.TemporaryDirectory() as folder:
    log = Path(folder, "access.log")
    log.touch()
    edge = [sys.executable, "-m", "headrace", "edge", "files", f"{folder}/*.log", "--topic", "web-logs"]
    edge += ["--parse", "combined", "--data-dir", f"{folder}/data", "--bootstrap", broker.bootstrap]
    with subprocess.Popen(edge, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()  # it is ready

        with log.open("a") as server:
            server.write(lines(46, errors=2))
            server.flush()
            log.rename(f"{folder}/access.log.1")  # rotated; the server still writes to the old file
            server.write(lines(47, errors=7))
        log.write_text(lines(48, errors=0) + "garbage\n")

        for minute, count in sorted(errors_by_minute(broker.bootstrap).items()):
            print(f"{minute}  {count} errors")
        process.terminate()
        print(process.communicate()[0].strip())
