from __future__ import annotations

import contextlib

import pynng
import pytest

from headrace.edges.direct.nng import NngSink, NngSource
from headrace.edges.errors import BadEdge
from tests.edges.conftest import wait_until
from tests.edges.direct.test_transport import connect


def test_address_in_use_is_an_error_with_the_remedy() -> None:
    with contextlib.closing(NngSink("tcp://127.0.0.1:0")) as sink, pytest.raises(BadEdge) as error:
        NngSink(sink.address)
    assert "--bind" in (error.value.hint or "")


def test_subscriber_waits_for_a_publisher_that_starts_later(tmp_path: object) -> None:
    address = f"ipc://{tmp_path}/later"
    with contextlib.closing(NngSource([address])) as source:
        assert list(source.receive(0.01)) == []
        with contextlib.closing(NngSink(address)) as sink:
            connect(source, sink)


def test_prefix_chooses_messages_of_other_publishers() -> None:
    with pynng.Pub0(listen="tcp://127.0.0.1:0") as publisher:
        address = f"tcp://{publisher.listeners[0].local_address}"
        with contextlib.closing(NngSource([address], prefix="10")) as source:
            found: list[tuple[bytes, ...]] = []

            def is_heard() -> bool:
                publisher.send(b"20 not subscribed")
                publisher.send(b"10001 C 21.5")
                found.extend(source.receive(0.01))
                return bool(found)

            wait_until(is_heard)
        assert set(found) == {(b"10001 C 21.5",)}
