"""The broker inside a program: in a thread, in an event loop, as a fixture."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

import headrace
from headrace.errors import HeadraceError
from headrace.settings import BadSetting
from headrace.testing.wire import Wire
from tests.broker.requests import batch, create_topic, produce, read_all


def is_listening(bootstrap: str) -> bool:
    host, _, port = bootstrap.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_broker_in_a_with_statement_serves_a_client_and_stops_afterwards() -> None:
    with headrace.Broker() as broker:
        bootstrap, folder = broker.bootstrap, broker.settings.data_dir
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce("t", b"hello", b"key")
        assert producer.flush(30) == 0
        consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["t"])
        message = consumer.poll(30)
        consumer.close()
        assert message is not None
        assert (message.key(), message.value()) == (b"key", b"hello")
    assert not is_listening(bootstrap)
    assert not folder.exists(), "its data was temporary"


def test_data_in_a_folder_that_was_given_stays(tmp_path: Path) -> None:
    for number in range(2):
        with headrace.Broker(tmp_path / "data") as broker, Wire(broker.bootstrap) as wire:
            if number == 0:
                create_topic(wire, "t")
            assert produce(wire, "t", batch(b"%d" % number)).base_offset == number
    with headrace.Broker(tmp_path / "data") as broker, Wire(broker.bootstrap) as wire:
        assert [record.value for record in read_all(wire, "t")] == [b"0", b"1"]


def test_several_brokers_run_in_one_process() -> None:
    with headrace.Broker() as one, headrace.Broker() as two:
        assert one.bootstrap != two.bootstrap
        for broker in (one, two):
            with Wire(broker.bootstrap) as wire:
                create_topic(wire, "same-name")


def test_settings_are_given_by_name_and_checked() -> None:
    with headrace.Broker(durability="os", default_partitions=3) as broker:
        assert (broker.settings.durability, broker.settings.default_partitions) == ("os", 3)
    with pytest.raises(BadSetting, match="no_such_setting"):
        headrace.Broker(no_such_setting=1)  # type: ignore[call-arg]


def test_start_that_fails_raises_here_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with headrace.Broker(tmp_path / "data") as broker:
        second = headrace.Broker(tmp_path / "data")
        with pytest.raises(HeadraceError, match="another broker is using"):
            second.start()
        second.stop()
        assert is_listening(broker.bootstrap)


def test_second_stop_does_nothing() -> None:
    broker = headrace.Broker().start()
    broker.stop()
    broker.stop()


def test_broker_in_a_running_event_loop_serves_clients_of_other_threads() -> None:
    def use(bootstrap: str) -> int:
        with Wire(bootstrap) as wire:
            create_topic(wire, "t")
            return produce(wire, "t", batch(b"x")).base_offset

    async def main() -> str:
        async with headrace.Broker() as broker:
            assert await asyncio.to_thread(use, broker.bootstrap) == 0
            return broker.bootstrap

    bootstrap = asyncio.run(main())
    assert not is_listening(bootstrap)


def test_start_that_fails_in_an_event_loop_raises_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with headrace.Broker(tmp_path / "data"):
            with pytest.raises(HeadraceError, match="another broker is using"):
                async with headrace.Broker(tmp_path / "data"):
                    pytest.fail("two brokers on one folder")

    asyncio.run(main())
