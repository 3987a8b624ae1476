from __future__ import annotations

import contextlib

import pytest
import zmq

from headrace.edges.direct.settings import QUEUE_MESSAGES
from headrace.edges.direct.zeromq import ZeroMQSink, ZeroMQSource
from headrace.edges.errors import BadEdge
from tests.edges.conftest import wait_until
from tests.edges.direct.test_transport import connect


def test_address_in_use_is_an_error_with_the_remedy() -> None:
    with (
        contextlib.closing(ZeroMQSink("tcp://127.0.0.1:0", subject=None)) as sink,
        pytest.raises(BadEdge) as error,
    ):
        ZeroMQSink(sink.address, subject=None)
    assert "--bind" in (error.value.hint or "")


def test_slow_subscriber_loses_messages_unless_the_publisher_waits() -> None:
    sent = 50 * QUEUE_MESSAGES
    for waits in (False, True):
        with (
            contextlib.closing(ZeroMQSink("tcp://127.0.0.1:0", subject=None, waits=waits)) as sink,
            contextlib.closing(ZeroMQSource([sink.address])) as source,
        ):
            connect(source, sink)
            taken = 0
            # The subscriber does not read.
            while taken < sent and sink.send((b"." * 200,)):
                taken += 1
            arrived = 0
            while found := source.receive(0.2):
                arrived += len(found)
        if waits:
            assert arrived == taken < sent
        else:
            assert arrived < taken == sent


def test_pusher_without_a_puller_waits() -> None:
    with contextlib.closing(ZeroMQSink("tcp://127.0.0.1:0", subject=None, pattern="pipeline")) as sink:
        assert not sink.send((b"one",))


def test_frames_of_other_publishers_are_kept() -> None:
    with zmq.Context() as context, context.socket(zmq.PUB) as publisher:
        port = publisher.bind_to_random_port("tcp://127.0.0.1")
        with contextlib.closing(ZeroMQSource([f"tcp://127.0.0.1:{port}"], prefix="10")) as source:
            found: list[tuple[bytes, ...]] = []

            def is_heard() -> bool:
                publisher.send_multipart([b"20", b"not subscribed"])
                publisher.send_multipart([b"10001", b"C", b"21.5"])
                found.extend(source.receive(0.01))
                return bool(found)

            wait_until(is_heard)
        assert set(found) == {(b"10001", b"C", b"21.5")}
