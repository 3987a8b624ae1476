"""The TCP listener in front of a broker; tests/cli/edge/test_tcp.py has the command."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from headrace.edges.connections import RECEIVE_BYTES
from headrace.edges.overload import Intake
from headrace.edges.settings import EdgeSettings
from headrace.edges.tcp import EVENTS_AT_ONCE, TcpListener, TcpSettings
from tests.edges.conftest import values_in, wait_until
from tests.faults.broker_process import BrokerProcess

MB = 1024 * 1024
LINE = b"x" * 999


@contextlib.contextmanager
def listening(intake: Intake, topic: str) -> Iterator[tuple[str, int]]:
    """The address of a listener in a thread; it is stopped at the end, and what it has read is delivered."""
    bound = socket.create_server(("127.0.0.1", 0))
    address = bound.getsockname()
    listener = TcpListener(TcpSettings(topic=topic), intake, bound)
    stop = threading.Event()
    thread = threading.Thread(target=listener.run, args=(stop.is_set,))
    thread.start()
    try:
        yield address
    finally:
        stop.set()
        thread.join()
        listener.close()


def test_each_line_is_an_event_in_order(bootstrap: str, topic: str) -> None:
    with (
        Intake({"bootstrap.servers": bootstrap}, EdgeSettings(stop_s=60), name="e") as intake,
        listening(intake, topic) as address,
        socket.create_connection(address) as sender,
    ):
        sender.sendall(b"".join(b"%d\n" % number for number in range(10_000)) + b"last")
        sender.shutdown(socket.SHUT_WR)
        wait_until(lambda: intake.count().delivered == 10_001)
    assert values_in(bootstrap, topic) == [*(b"%d" % number for number in range(10_000)), b"last"]


def test_sender_waits_while_the_broker_is_away_and_loses_nothing(tmp_path: Path) -> None:
    """Ten times as much as fits into memory: the rest waits at the sender."""
    settings = EdgeSettings(memory_bytes_max=MB, in_flight_bytes_max=MB, stop_s=60)
    broker = BrokerProcess(tmp_path / "broker", durability="os", default_partitions=1)
    config = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    count = 20_000
    with Intake(config, settings, name="e") as intake, listening(intake, "lines") as address:
        sent = threading.Event()

        def send() -> None:
            with socket.create_connection(address) as sender:
                sender.sendall((LINE + b"\n") * count)
            sent.set()

        threading.Thread(target=send).start()
        wait_until(lambda: intake.count().pushed_back > 3)
        assert not sent.is_set()
        assert intake.count().memory_bytes < 3 * MB
        with broker:
            wait_until(lambda: intake.count().delivered == count)
            assert values_in(broker.bootstrap, "lines") == [LINE] * count


def test_lines_of_many_senders_are_handed_over_in_bounded_parts(bootstrap: str, topic: str) -> None:
    senders, lines = 8, RECEIVE_BYTES // 2
    with Intake({"bootstrap.servers": bootstrap}, EdgeSettings(stop_s=60), name="e") as intake:
        bound = socket.create_server(("127.0.0.1", 0))
        listener = TcpListener(TcpSettings(topic=topic), intake, bound)
        with contextlib.ExitStack() as opened:
            sockets = [
                opened.enter_context(socket.create_connection(bound.getsockname())) for _ in range(senders)
            ]
            while listener.connections.accepted < senders:
                listener._step(0.1)
            for number, each in enumerate(sockets):
                each.sendall(b"%d\n" % number * lines)
            most = 0
            while intake.count().received < senders * lines:
                listener._step(0.1)
                most = max(most, len(listener._waiting))
        listener.close()
    assert EVENTS_AT_ONCE <= most < EVENTS_AT_ONCE + lines
    assert Counter(values_in(bootstrap, topic)) == {b"%d" % number: lines for number in range(senders)}


def test_sender_that_never_pauses_delays_no_other(bootstrap: str, topic: str) -> None:
    with Intake({"bootstrap.servers": bootstrap}, EdgeSettings(stop_s=60), name="e") as intake:
        bound = socket.create_server(("127.0.0.1", 0))
        listener = TcpListener(TcpSettings(topic=topic), intake, bound)
        with (
            socket.create_connection(bound.getsockname()) as busy,
            socket.create_connection(bound.getsockname()) as other,
        ):
            while listener.connections.accepted < 2:
                listener._step(0.1)
            busy.setblocking(False)
            other.sendall(b"other\n")
            is_seen = False
            while not is_seen:
                with contextlib.suppress(BlockingIOError):
                    busy.send(b"\n" * RECEIVE_BYTES * 4)
                listener._step(0.1)
                is_seen = any(each.value == b"other" for each in listener._waiting)
        listener.close()
