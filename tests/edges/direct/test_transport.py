"""What every transport promises, on real sockets: the contract of sources and sinks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.edges.direct.multicast import MulticastSink, MulticastSource
from headrace.edges.direct.nng import NngSink, NngSource
from headrace.edges.direct.packing import PackingBounds, pack
from headrace.edges.direct.transport import BATCH, Sink, Source
from headrace.edges.direct.zeromq import ZeroMQSink, ZeroMQSource
from tests.edges.conftest import wait_until
from tests.edges.direct.conftest import event, free_group

Pair = tuple[Source, Sink]


def multicast(_folder: Path) -> Pair:
    group = free_group()
    return (
        MulticastSource([group], "127.0.0.1"),
        MulticastSink([group], "127.0.0.1", ttl=1, datagram_bytes=1_400),
    )


def zeromq(_folder: Path) -> Pair:
    sink = ZeroMQSink("tcp://127.0.0.1:0", subject="quotes")
    return ZeroMQSource([sink.address], prefix="quo"), sink


def zeromq_plain(_folder: Path) -> Pair:
    sink = ZeroMQSink("tcp://127.0.0.1:0", subject=None)
    return ZeroMQSource([sink.address]), sink


def zeromq_pipeline(_folder: Path) -> Pair:
    sink = ZeroMQSink("tcp://127.0.0.1:0", subject=None, pattern="pipeline")
    return ZeroMQSource([sink.address], pattern="pipeline"), sink


def zeromq_ipc(folder: Path) -> Pair:
    sink = ZeroMQSink(f"ipc://{folder}/feed", subject="quotes")
    return ZeroMQSource([sink.address]), sink


def nng(_folder: Path) -> Pair:
    sink = NngSink("tcp://127.0.0.1:0")
    return NngSource([sink.address]), sink


def nng_ipc(folder: Path) -> Pair:
    sink = NngSink(f"ipc://{folder}/feed")
    return NngSource([sink.address]), sink


@pytest.fixture(params=[multicast, zeromq, zeromq_plain, zeromq_pipeline, zeromq_ipc, nng, nng_ipc])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    make: Callable[[Path], Pair] = request.param
    source, sink = make(tmp_path)
    with contextlib.closing(source), contextlib.closing(sink):
        connect(source, sink)
        yield source, sink


def connect(source: Source, sink: Sink) -> None:
    """A subscriber misses what is sent before it is connected."""

    def is_heard() -> bool:
        sink.send((b"hello",))
        return bool(source.receive(0.01))

    wait_until(is_heard)
    while source.receive(0.05):
        pass


def test_every_message_arrives_whole_and_in_order(pair: Pair) -> None:
    source, sink = pair
    sent = [b"%d" % number * (number % 50 + 1) for number in range(2_000)]
    arrived: list[bytes] = []
    for number, each in enumerate(sent):
        assert sink.send((each,))
        if number % 100 == 0:
            arrived += [frames[-1] for frames in source.receive(0)]

    def has_all() -> bool:
        found = source.receive(0.01)
        assert len(found) <= BATCH
        arrived.extend(frames[-1] for frames in found)
        return len(arrived) >= len(sent)

    wait_until(has_all)
    assert arrived == sent
    assert source.dropped() == 0


def test_largest_packet_of_the_bounds_arrives(pair: Pair) -> None:
    source, sink = pair
    bounds = PackingBounds(
        packet_bytes=sink.bounds.packet_bytes, packet_bytes_max=min(sink.bounds.packet_bytes_max, 1_000_000)
    )
    overhead = len(pack(1, 0, [event(0)], 0, bounds).packets[0]) - len(event(0).value or b"")
    largest = b"." * (bounds.packet_bytes_max - overhead)
    assert sink.send((largest + b"." * overhead,))
    arrived: list[bytes] = []

    def has_come() -> bool:
        arrived.extend(frames[-1] for frames in source.receive(0.01))
        return bool(arrived)

    wait_until(has_come)
    assert [len(each) for each in arrived] == [bounds.packet_bytes_max]


def test_nothing_to_receive_is_no_message(pair: Pair) -> None:
    source, _sink = pair
    assert list(source.receive(0)) == list(source.receive(0.01)) == []


@pytest.mark.parametrize("kind", ["zeromq", "nng"])
def test_peer_that_sends_too_large_a_message_is_disconnected_and_connected_again(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"headrace.edges.direct.{kind}.MESSAGE_BYTES_MAX", 1_000)
    source, sink = (zeromq_ipc if kind == "zeromq" else nng_ipc)(tmp_path)
    with contextlib.closing(source), contextlib.closing(sink):
        connect(source, sink)
        sink.send((b"." * 1_001,))
        found: list[bytes] = []

        def is_connected_again() -> bool:
            sink.send((b"again",))
            found.extend(frames[-1] for frames in source.receive(0.01))
            return b"again" in found

        wait_until(is_connected_again)
        assert all(len(each) <= 1_000 for each in found)


@pytest.mark.parametrize("make", [zeromq_ipc, nng_ipc])
def test_publisher_that_starts_again_is_heard_again(make: Callable[[Path], Pair], tmp_path: Path) -> None:
    source, sink = make(tmp_path)
    with contextlib.closing(source):
        with contextlib.closing(sink):
            connect(source, sink)
        other, again = make(tmp_path)
        other.close()
        with contextlib.closing(again):
            connect(source, again)
