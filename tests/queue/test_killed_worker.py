"""kill -9 of a worker: another one gets the message that it had locked, and none that it had accepted."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

from tests.queue.conftest import OpenQueue, Send, take

WORKER = """
import sys, time
from headrace.queue import Queue

bootstrap, topic, group = sys.argv[1:]
with Queue(topic, group=group, bootstrap=bootstrap) as queue:
    for message in queue:
        if message.value == b"hold":
            print("holding", flush=True)
            time.sleep(1000)
        message.accept()
        queue.flush()
"""


def test_message_of_a_killed_worker_is_redelivered_to_another(
    open_queue: OpenQueue, set_group: Callable[..., None], bootstrap: str, topic: str, group: str, send: Send
) -> None:
    set_group(group, share_record_lock_duration_ms=2000)
    send(topic, "done", "hold", "behind")
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, bootstrap, topic, group], stdout=subprocess.PIPE, text=True
    )
    with worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "holding\n"
        finally:
            worker.send_signal(signal.SIGKILL)
    with open_queue(topic, group=group) as queue:
        again = {message.value: message.delivery_count for message in take(queue, 2)}
    assert again == {b"hold": 2, b"behind": 2}
