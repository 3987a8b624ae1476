"""What a run of direct messaging does at its start: the buffer of the last run, and the position."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from headrace.edges.direct.carried import carried_by
from headrace.edges.direct.multicast import MulticastSink
from headrace.edges.direct.packet import encode_packet
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from tests.cli.conftest import started
from tests.cli.edge.conftest import page, ready, ready_at, stop
from tests.edges.conftest import values_in, wait_until
from tests.edges.direct.conftest import free_group, packet


def test_buffered_events_of_a_killed_receiver_arrive_and_what_it_missed_is_counted(
    environment: dict[str, str], bootstrap: str, topic: str, tmp_path: Path
) -> None:
    group, port = free_group()
    sink = MulticastSink([(group, port)], "127.0.0.1", ttl=1, datagram_bytes=1_400)
    receive = ["edge", "multicast", "receive", "-t", topic, "-g", f"{group}:{port}"]
    receive += ["--overload", "buffer", "--data-dir", str(tmp_path), "--metrics-port", "0"]
    nowhere = {**environment, "HEADRACE_BOOTSTRAP": "127.0.0.1:1"}
    with started(*receive, environment=nowhere) as process:
        (metrics,) = ready(process)
        for number in range(10):
            sink.send((encode_packet(packet(number)),))
        wait_until(lambda: 'kind="received"} 10.0' in page(metrics))
        os.kill(process.pid, signal.SIGKILL)

    with started(*receive, environment=environment) as process:
        ready_at(process)
        # 10 to 14 are sent while no receiver runs.
        sink.send((encode_packet(packet(15)),))
        wait_until(lambda: len(values_in(bootstrap, topic)) == 11)
        assert "5 missing" in stop(process)
    sink.close()
    assert values_in(bootstrap, topic) == [b"%d" % number for number in (*range(10), 15)]
    last = [*read_committed(Cluster(bootstrap, timeout_s=30), topic)][-1]
    carried = carried_by(last.headers() or ())  # type: ignore[arg-type]
    assert carried is not None
    assert (carried.number, carried.missing) == (15, 5)
