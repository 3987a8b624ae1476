"""`headrace edge multicast` in front of a real broker, with real datagrams on the loopback interface."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.edges.direct.carried import carried_by
from headrace.edges.direct.multicast import MulticastSink
from headrace.edges.direct.packet import encode_packet
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from tests.cli.conftest import Headrace, started
from tests.cli.edge.conftest import page, ready, ready_at, stop
from tests.cli.typed_json import json_problems
from tests.edges.conftest import values_in, wait_until
from tests.edges.direct.conftest import free_group, packet
from tests.faults.broker_process import BrokerProcess


@pytest.fixture
def group() -> str:
    host, port = free_group()
    return f"{host}:{port}"


def write(bootstrap: str, topic: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, first + count):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(60) == 0


def numbered(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_feed_of_a_topic_arrives_in_another_and_both_reports_count_it(
    environment: dict[str, str], bootstrap: str, topic: str, group: str
) -> None:
    arguments = ["--topic", f"{topic}-copy", "--group", group, "--interval", "200ms", "--metrics-port", "0"]
    with started(
        "edge", "multicast", "receive", *arguments, "--format", "json", environment=environment
    ) as receiver:
        (metrics,) = ready(receiver)
        with started(
            "edge",
            "multicast",
            "publish",
            "-t",
            topic,
            "-g",
            group,
            "--format",
            "json",
            environment=environment,
        ) as publisher:
            assert ready_at(publisher) == f"{group}\n"
            write(bootstrap, topic, 0, 1_000)
            wait_until(lambda: 'kind="received"} 1000.0' in page(metrics))
            sent = stop(publisher)
        counts = page(metrics)
        received = stop(receiver)

    assert values_in(bootstrap, f"{topic}-copy") == numbered(0, 1_000)
    edge = f"multicast-{topic}-copy"
    assert f'headrace_edge_lost_total{{edge="{edge}",place="missing"}} 0.0' in counts
    assert f'headrace_edge_lost_total{{edge="{edge}",place="kernel"}} 0.0' in counts
    assert json_problems("edge multicast receive", received) == []
    assert json_problems("edge multicast publish", sent) == []
    report: dict[str, Any] = json.loads(received)
    assert (report["received"], report["missing"], report["duplicates"]) == (1_000, 0, 0)
    assert (json.loads(sent)["events"], json.loads(sent)["too_large"]) == (1_000, 0)
    intervals = [json.loads(each) for each in values_in(bootstrap, f"{topic}-copy.loss")]
    assert sum(each["received"] for each in intervals) == 1_000


def test_numbers_that_a_sender_skips_are_in_the_report_and_garbage_is_a_dead_letter(
    environment: dict[str, str], bootstrap: str, topic: str, group: str
) -> None:
    host, _, port = group.partition(":")
    sink = MulticastSink([(host, int(port))], "127.0.0.1", ttl=1, datagram_bytes=1_400)
    with started(
        "edge", "multicast", "receive", "-t", topic, "-g", group, environment=environment
    ) as process:
        ready_at(process)
        for each in (encode_packet(packet(0)), b"garbage", encode_packet(packet(4))):
            sink.send((each,))
        wait_until(lambda: len(values_in(bootstrap, topic)) == 2)
        out = stop(process)
    sink.close()
    assert out.startswith("3 packets, 2 events, 3 missing, 1 packets of garbage; written: ")
    assert values_in(bootstrap, f"dlq.{topic}") == [b"garbage"]


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker", default_partitions=1) as broker:
        Cluster(broker.bootstrap, timeout_s=30).create_topic("quotes", partitions=1)
        yield broker


@pytest.mark.parametrize("victim", ["publisher", "receiver", "broker"])
def test_every_event_arrives_once_and_in_order_although_one_of_them_is_killed(
    victim: str, killable: BrokerProcess, group: str
) -> None:
    bootstrap = killable.bootstrap
    environment = {**os.environ, "HEADRACE_BOOTSTRAP": bootstrap}
    receive = ["edge", "multicast", "receive", "-t", "copy", "-g", group, "--recover-topic", "quotes"]
    publish = ["edge", "multicast", "publish", "-t", "quotes", "-g", group]

    def is_copied(count: int) -> bool:
        return len(values_in(bootstrap, "copy")) >= count

    with (
        started(*receive, environment=environment) as receiver,
        started(*publish, environment=environment) as publisher,
    ):
        ready_at(receiver)
        ready_at(publisher)
        write(bootstrap, "quotes", 0, 500)
        wait_until(lambda: is_copied(500))
        killed: subprocess.Popen[str] | None = None
        if victim == "broker":
            killable.kill()
            killable.start()
        else:
            killed = receiver if victim == "receiver" else publisher
            killed.kill()
        write(bootstrap, "quotes", 500, 500)
        if killed is None:
            wait_until(lambda: is_copied(1_000))
        else:
            again = receive if killed is receiver else publish
            with started(*again, environment=environment) as process:
                ready_at(process)
                write(bootstrap, "quotes", 1_000, 1)
                wait_until(lambda: is_copied(1_001))
    found = values_in(bootstrap, "copy")
    assert found == numbered(0, len(found))
    records = read_committed(Cluster(bootstrap, timeout_s=30), "copy")
    carried = [carried_by(each.headers() or ()) for each in records]  # type: ignore[arg-type]
    assert sum(each.missing + each.dropped for each in carried if each) == 0


def test_wrong_use_is_an_error_with_the_remedy(headrace: Headrace, topic: str, group: str) -> None:
    def error(*arguments: str, code: int = 1) -> str:
        return headrace("edge", "multicast", *arguments, "--topic", topic, code=code).err

    assert "not a multicast group" in error("receive", "--group", "127.0.0.1:5007")
    assert "--insecure" in error("receive", "--group", group, "--interface", "0.0.0.0")
    assert "--insecure" in error("publish", "--group", group, "--interface", "10.0.0.7")
    assert "shorter than" in error("receive", "--group", group, "--interval", "1ms", code=2)
    assert "the topic that is written" in error("receive", "--group", group, "--recover-topic", topic, code=2)
    assert "--recover-topic" in error("receive", "--group", group, "--recover-from", "127.0.0.1:1", code=2)
    missing = headrace("edge", "multicast", "publish", "--topic", "nothing", "--group", group, code=1).err
    assert "nothing" in missing
