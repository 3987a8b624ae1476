"""`headrace edge nng` in front of a real broker, with real sockets, also of other programs."""

from __future__ import annotations

import json

import pynng
from confluent_kafka import Producer

from tests.cli.conftest import Headrace, started
from tests.cli.edge.conftest import ready, ready_at, stop
from tests.cli.typed_json import json_problems
from tests.edges.conftest import values_in, wait_until


def write(bootstrap: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value)
    assert producer.flush(60) == 0


def test_messages_of_a_topic_arrive_in_another(
    environment: dict[str, str], bootstrap: str, topic: str
) -> None:
    publish = ["edge", "nng", "publish", "-t", topic, "--bind", "tcp://127.0.0.1:0", "--format", "json"]
    with started(*publish, environment=environment) as publisher:
        ((_host, port),) = ready(publisher)
        subscribe = ["edge", "nng", "subscribe", "-t", f"{topic}-copy", "--format", "json"]
        with started(
            *subscribe, "--connect", f"tcp://127.0.0.1:{port}", environment=environment
        ) as subscriber:
            ready_at(subscriber)

            def is_copied() -> bool:
                write(bootstrap, topic, b"21.5")
                return len(values_in(bootstrap, f"{topic}-copy")) > 3

            wait_until(is_copied)
            received = stop(subscriber)
        sent = stop(publisher)
    assert json_problems("edge nng subscribe", received) == []
    assert json_problems("edge nng publish", sent) == []
    assert json.loads(received)["missing"] == 0
    assert {*values_in(bootstrap, f"{topic}-copy")} == {b"21.5"}


def test_plain_messages_go_to_and_come_from_other_programs(
    environment: dict[str, str], bootstrap: str, topic: str
) -> None:
    with pynng.Pub0(listen="tcp://127.0.0.1:0") as publisher:
        address = f"tcp://{publisher.listeners[0].local_address}"
        subscribe = [
            "edge",
            "nng",
            "subscribe",
            "-t",
            topic,
            "--plain",
            "--prefix",
            "10",
            "--connect",
            address,
        ]
        with started(*subscribe, environment=environment) as process:
            ready_at(process)

            def is_written() -> bool:
                publisher.send(b"10001 21.5")
                publisher.send(b"20001 not subscribed")
                return len(values_in(bootstrap, topic)) > 0

            wait_until(is_written)
            stop(process)
    assert {*values_in(bootstrap, topic)} == {b"10001 21.5"}

    publish = ["edge", "nng", "publish", "-t", topic, "--plain", "--bind", "tcp://127.0.0.1:0"]
    with started(*publish, environment=environment) as process, pynng.Sub0(topics=[b""]) as subscriber:
        ((_host, port),) = ready(process)
        subscriber.dial(f"tcp://127.0.0.1:{port}", block=True)
        subscriber.recv_timeout = 50
        heard: list[bytes] = []

        def is_heard() -> bool:
            write(bootstrap, topic, b"21.5")
            try:
                heard.append(subscriber.recv())
            except pynng.Timeout:
                return False
            return True

        wait_until(is_heard)
    assert heard == [b"21.5"]


def test_wrong_use_is_an_error_with_the_remedy(headrace: Headrace, topic: str) -> None:
    bind = headrace("edge", "nng", "publish", "-t", topic, "--bind", "tcp://0.0.0.0:5560", code=1).err
    assert "--insecure" in bind
    connect = headrace("edge", "nng", "subscribe", "-t", topic, "--connect", "inproc://x", code=1).err
    assert "tcp://HOST:PORT" in connect
