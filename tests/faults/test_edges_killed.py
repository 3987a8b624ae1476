"""The broker is killed and restarted under each edge: nothing acknowledged is lost.

tests/cli/edge has it for files and multicast, tests/alerts/test_runner.py for alerts, and other files here for HTTP and
webhooks.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.edges.direct.carried import carried_by
from headrace.edges.direct.packet import encode_packet
from headrace.edges.overload import Intake
from headrace.edges.settings import EdgeSettings
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from headrace.testing.manual_clock import ManualClock
from tests.contract.test_overloaded_edges import FEEDS, number_in_line, pipeline, receiving
from tests.edges.conftest import values_in, wait_until
from tests.edges.direct.conftest import packet
from tests.edges.statsd import test_listener as statsd
from tests.edges.test_tcp import listening
from tests.faults.broker_process import BrokerProcess

pytestmark = pytest.mark.timeout(300)

KILLS = 3
LINES = 20_000


def killed_while(broker: BrokerProcess, intake: Intake, send: Callable[[int], None]) -> None:
    """Send some in front of each kill, and some while the broker is down."""
    for kill in range(KILLS):
        delivered = intake.count().delivered
        send(2 * kill)
        wait_until(lambda: intake.count().delivered > delivered)  # noqa: B023
        broker.kill()
        send(2 * kill + 1)
        broker.start()
    wait_until(lambda: intake.count().pending == 0)


def test_each_line_over_tcp_is_in_the_topic_once_and_in_order(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", default_partitions=1)
    with broker:
        config = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        with (
            Intake(config, EdgeSettings(stop_s=60), name="e") as intake,
            listening(intake, "lines") as address,
            socket.create_connection(address) as sender,
        ):

            def send(part: int) -> None:
                sender.sendall(
                    b"".join(b"%d\n" % number for number in range(part * LINES, (part + 1) * LINES))
                )

            killed_while(broker, intake, send)
            wait_until(lambda: intake.count().delivered == 2 * KILLS * LINES)
            assert values_in(broker.bootstrap, "lines") == [
                b"%d" % number for number in range(2 * KILLS * LINES)
            ]


def test_each_window_of_statsd_is_in_the_topic_once(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", default_partitions=1)
    with broker:
        clock = ManualClock()
        config = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        with Intake(config, EdgeSettings(stop_s=60), name="edge") as intake:
            with statsd.listening(intake, "metrics", clock) as (sender, listener):

                def send(part: int) -> None:
                    sender.lines(b"".join(b"m%d:1|c\n" % number for number in range(1_000)))
                    wait_until(lambda: listener.metrics + listener._window.metrics == (part + 1) * 1_000)
                    clock.advance_ms(statsd.FLUSH_MS)

                killed_while(broker, intake, send)
            count = intake.close()
        events = [json.loads(value) for value in values_in(broker.bootstrap, "metrics")]
    assert count.delivered == len(events)
    counters = [each for each in events if each["type"] == "counter"]
    assert sum(each["value"] for each in counters) == 2 * KILLS * 1_000
    assert len({(each["name"], each["start"]) for each in counters}) == len(counters)


def test_each_message_of_a_pipeline_is_in_the_topic_once_and_in_order(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", default_partitions=1)
    with broker:
        config = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        with Intake(config, EdgeSettings(stop_s=60), name="e") as intake:
            with pipeline(intake, "messages", tmp_path) as edge:
                killed_while(broker, intake, lambda part: edge.send(part * LINES, (part + 1) * LINES))
                wait_until(lambda: intake.count().delivered == 2 * KILLS * LINES)
            found = [number_in_line(value) for value in values_in(broker.bootstrap, "messages")]
    assert found == [*range(2 * KILLS * LINES)]


@pytest.mark.parametrize("kind", FEEDS)
def test_each_number_of_a_feed_is_in_the_topic_once(kind: str, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", default_partitions=1)
    source, sink = FEEDS[kind]()
    with broker, contextlib.closing(sink):
        config = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        with Intake(config, EdgeSettings(stop_s=60), name="e", marks_drops=False) as intake:
            with receiving(intake, "quotes", source, is_plain=False) as receiver:

                def send(part: int) -> None:
                    end = (part + 1) * 2_000
                    for number in range(part * 2_000, end):
                        sink.send((encode_packet(packet(number)),))
                    # The transport itself loses nothing: the receiver has read them before there are more.
                    wait_until(lambda: receiver.tally.received == end)

                killed_while(broker, intake, send)
                sent = receiver.tally.received
            assert intake.close().dropped == {}
        messages = read_committed(Cluster(broker.bootstrap, timeout_s=30), "quotes")
        carried = [carried_by(each.headers() or ()) for each in messages]  # type: ignore[arg-type]
    assert [each.number for each in carried if each] == [*range(sent)] == [*range(2 * KILLS * 2_000)]
    assert sum(each.losses for each in carried if each) == 0
