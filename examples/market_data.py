"""Market data by UDP multicast: quotes are lost on the way, found by their sequence numbers, and read from the log.

python examples/market_data.py

The exchange publishes its topic as a feed. A trader receives it; a network that loses some datagrams is between them.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace import Broker
from headrace.edges.direct import MulticastSink, MulticastSource, decode_packet
from headrace.testing import free_port

QUOTES = 1_000
LOST = range(300, 400)
EXCHANGE, TRADER = "239.7.7.1", "239.7.7.2"
WAIT_S = 60


@contextlib.contextmanager
def edge(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`headrace edge multicast`, from when it is ready until Ctrl-C."""
    command = [sys.executable, "-m", "headrace", "edge", "multicast", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any(" ready at " in line for line in process.stderr)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)


def produce_quotes(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(QUOTES):
        quote = {"symbol": "ACME", "price": 100 + number % 7, "number": number}
        producer.produce("quotes", key="ACME", value=json.dumps(quote))
    producer.flush(WAIT_S)


def bad_network(source: MulticastSource, sink: MulticastSink) -> int:
    """Forward the feed without the datagrams that have one of these numbers; how many events were lost."""
    forwarded = lost = 0
    while forwarded + lost < QUOTES:
        for (datagram,) in source.receive(WAIT_S):
            packet = decode_packet(datagram)
            if any(event.number in LOST for event in packet.events):
                lost += len(packet.events)
            else:
                forwarded += len(packet.events)
                sink.send((datagram,))
    return lost


def consume_quotes(bootstrap: str) -> list[int]:
    config = {"bootstrap.servers": bootstrap, "group.id": "trader", "auto.offset.reset": "earliest"}
    consumer = Consumer(config)
    consumer.subscribe(["quotes-here"])
    messages = consumer.consume(QUOTES, timeout=WAIT_S)
    consumer.close()
    return [json.loads(message.value() or b"")["number"] for message in messages]


def main() -> None:
    port = free_port()
    with Broker() as broker:
        create_topics(broker.bootstrap)
        to = ["--bootstrap", broker.bootstrap]
        receive = ["receive", "--topic", "quotes-here", "--group", f"{TRADER}:{port}", "--format", "json"]
        with (
            contextlib.closing(MulticastSource([(EXCHANGE, port)], "127.0.0.1")) as source,
            contextlib.closing(
                MulticastSink([(TRADER, port)], "127.0.0.1", ttl=1, datagram_bytes=1_400)
            ) as sink,
            edge(*receive, "--recover-topic", "quotes", *to) as trader,
            edge("publish", "--topic", "quotes", "--group", f"{EXCHANGE}:{port}", *to),
        ):
            produce_quotes(broker.bootstrap)
            lost = bad_network(source, sink)
            found = consume_quotes(broker.bootstrap)
            trader.send_signal(signal.SIGINT)
            report = json.loads(trader.communicate(timeout=WAIT_S)[0])
    print(f"in order and each once: {found == list(range(QUOTES))}")
    print(f"all that was lost was recovered: {report['recovered'] == lost >= len(LOST)}")
    print(f"missing: {report['missing']}")


def create_topics(bootstrap: str) -> None:

    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, 1, 1) for name in ("quotes", "quotes-here")]
    for created in admin.create_topics(topics).values():
        created.result(WAIT_S)


if __name__ == "__main__":
    main()
