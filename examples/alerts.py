"""Errors in a log become mails: one when a service fails, one when it works again. The mail server is in this script.

python examples/alerts.py
"""

from __future__ import annotations

import json
import queue
import socket
import subprocess
import sys
import tempfile
from email import message_from_bytes, policy
from typing import Any

from aiosmtpd.controller import Controller
from confluent_kafka import Producer

from headrace import Broker

WAIT_S = 60


class Inbox:
    """A mail server. It drops a mail whose id it has: a sender that is killed before it marks a mail sends it again."""

    def __init__(self) -> None:
        self.subjects: queue.Queue[str] = queue.Queue()
        self._ids: set[str] = set()

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        mail = message_from_bytes(envelope.content, policy=policy.default)
        if mail["Message-ID"] not in self._ids:
            self._ids.add(mail["Message-ID"])
            self.subjects.put(str(mail["Subject"]))
        return "250 taken"

    def print_next(self) -> None:
        print(f"  mail: {self.subjects.get(timeout=WAIT_S)}")


def write(producer: Producer, service: str, level: str) -> None:
    print(f"{service}: {level}")
    producer.produce("app-logs", json.dumps({"service": service, "level": level}))
    producer.flush()


def main() -> None:
    inbox = Inbox()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = Controller(inbox, hostname="127.0.0.1", port=port)
    server.start()
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:

        def headrace(*arguments: str) -> list[str]:
            own = [*arguments, "--bootstrap", broker.bootstrap]
            return [sys.executable, "-m", "headrace", *own]

        subprocess.run(headrace("topic", "create", "app-logs"), check=True, stdout=subprocess.DEVNULL)
        alert = [
            *("alert", "add", "errors", "--data-dir", folder),
            *("--topic", "app-logs", "--when", "level = 'ERROR'", "--per", "service"),
            *("--group-wait", "0s", "--group-interval", "0s"),
            *("--to", f"mailto://127.0.0.1:{port}?to=ann@example.com"),
        ]
        subprocess.run(headrace(*alert), check=True, stdout=subprocess.DEVNULL)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})

        print("the alerts run")
        running = subprocess.Popen(headrace("alert", "run", "--data-dir", folder), stderr=subprocess.DEVNULL)
        write(producer, "checkout", "ERROR")
        inbox.print_next()

        print("the process is killed, and the next one continues")
        running.kill()
        running.wait()
        write(producer, "checkout", "INFO")
        write(producer, "search", "INFO")
        running = subprocess.Popen(headrace("alert", "run", "--data-dir", folder), stderr=subprocess.DEVNULL)
        inbox.print_next()

        running.terminate()
        running.wait()
        history = subprocess.run(
            headrace("alert", "history", "--format", "json"), check=True, capture_output=True, text=True
        )
        events = [json.loads(line)["event"] for line in history.stdout.splitlines()]
        print(f"history: {', '.join(each for each in events if each in ('firing', 'resolved'))}")
    server.stop()


if __name__ == "__main__":
    main()
