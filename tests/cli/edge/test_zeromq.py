"""`headrace edge zeromq` in front of a real broker, with real sockets, also of other programs."""

from __future__ import annotations

import json

import zmq
from confluent_kafka import Producer

from headrace.edges.direct.packet import decode_packet
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from tests.cli.conftest import Headrace, started
from tests.cli.edge.conftest import ready, ready_at, stop
from tests.cli.typed_json import json_problems
from tests.edges.conftest import values_in, wait_until


def write(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, key=b"roof")
    assert producer.flush(60) == 0


def test_messages_of_a_topic_arrive_in_another_and_what_came_too_early_is_recovered(
    environment: dict[str, str], bootstrap: str, topic: str
) -> None:
    publish = ["edge", "zeromq", "publish", "-t", topic, "--bind", "tcp://127.0.0.1:0", "--format", "json"]
    with started(*publish, environment=environment) as publisher:
        ((_host, port),) = ready(publisher)
        subscribe = ["edge", "zeromq", "subscribe", "-t", f"{topic}-copy", "--format", "json"]
        subscribe += ["--connect", f"tcp://127.0.0.1:{port}", "--recover-topic", topic]
        for _ in range(2):
            # The second subscriber continues where the first one ended.
            with started(*subscribe, environment=environment) as subscriber:
                ready_at(subscriber)
                copied = len(_copied(bootstrap, topic))
                write(bootstrap, topic, 300)
                if copied:
                    wait_until(lambda: len(_copied(bootstrap, topic)) == 600)
                else:
                    wait_until(lambda: len(_copied(bootstrap, topic)) > 0)
                received = stop(subscriber)
        sent = stop(publisher)
    assert json_problems("edge zeromq subscribe", received) == []
    assert json_problems("edge zeromq publish", sent) == []
    assert json.loads(received)["missing"] == 0
    assert json.loads(sent)["events"] == 600
    assert _copied(bootstrap, topic)[-300:] == [b"%d" % number for number in range(300)]


def _copied(bootstrap: str, topic: str) -> list[bytes]:
    return values_in(bootstrap, f"{topic}-copy")


def test_numbers_are_a_frame_of_their_own_behind_the_subject(
    environment: dict[str, str], bootstrap: str, topic: str
) -> None:
    write(bootstrap, topic, 3)
    publish = ["edge", "zeromq", "publish", "-t", topic, "--bind", "tcp://127.0.0.1:0", "--subject", "roof"]
    with started(*publish, environment=environment) as process, zmq.Context() as context:
        ((_host, port),) = ready(process)
        with context.socket(zmq.SUB) as subscriber:
            subscriber.connect(f"tcp://127.0.0.1:{port}")
            subscriber.subscribe(b"roof")
            subject, data = subscriber.recv_multipart()
        assert (subject, decode_packet(data).next) == (b"roof", 3)


def test_plain_messages_go_to_and_come_from_other_programs(
    environment: dict[str, str], bootstrap: str, topic: str
) -> None:
    with (
        zmq.Context() as context,
        context.socket(zmq.PUB) as publisher,
        context.socket(zmq.SUB) as subscriber,
    ):
        port = publisher.bind_to_random_port("tcp://127.0.0.1")
        subscribe = ["edge", "zeromq", "subscribe", "-t", topic, "--plain", "--prefix", "10"]
        with started(*subscribe, "--connect", f"tcp://127.0.0.1:{port}", environment=environment) as process:
            ready_at(process)

            def is_written() -> bool:
                publisher.send_multipart([b"10001", b"21.5"])
                publisher.send_multipart([b"20001", b"not subscribed"])
                return len(values_in(bootstrap, topic)) > 0

            wait_until(is_written)
            stop(process)
        records = [*read_committed(Cluster(bootstrap, timeout_s=30), topic)]
        assert {(each.key(), each.value()) for each in records} == {(b"10001", b"21.5")}

        publish = ["edge", "zeromq", "publish", "-t", topic, "--plain", "--bind", "tcp://127.0.0.1:0"]
        with started(*publish, environment=environment) as process:
            ((_host, port),) = ready(process)
            subscriber.connect(f"tcp://127.0.0.1:{port}")
            subscriber.subscribe(b"roof")

            def is_heard() -> bool:
                write(bootstrap, topic, 1)
                return bool(subscriber.poll(50))

            wait_until(is_heard)
            assert subscriber.recv_multipart() == [b"roof", b"0"]


def test_pipeline_waits_for_its_puller(environment: dict[str, str], bootstrap: str, topic: str) -> None:
    write(bootstrap, topic, 1_000)
    publish = ["edge", "zeromq", "publish", "-t", topic, "--pipeline", "--from-beginning"]
    with started(*publish, "--bind", "tcp://127.0.0.1:0", environment=environment) as publisher:
        ((_host, port),) = ready(publisher)
        subscribe = ["edge", "zeromq", "subscribe", "-t", f"{topic}-copy", "--pipeline"]
        with started(
            *subscribe, "--connect", f"tcp://127.0.0.1:{port}", environment=environment
        ) as subscriber:
            ready_at(subscriber)
            # Nothing is recovered: nothing was lost before the puller was there.
            wait_until(lambda: len(_copied(bootstrap, topic)) == 1_000)


def test_wrong_use_is_an_error_with_the_remedy(headrace: Headrace, topic: str) -> None:
    bind = headrace("edge", "zeromq", "publish", "-t", topic, "--bind", "tcp://0.0.0.0:5555", code=1).err
    assert "--insecure" in bind
    connect = headrace("edge", "zeromq", "subscribe", "-t", topic, "--connect", "localhost", code=1).err
    assert "tcp://HOST:PORT" in connect
