"""States of share groups on disk: they are the same after a restart, and the topic stays short."""

from __future__ import annotations

import asyncio
from pathlib import Path

from headrace.broker.embedded import Broker
from headrace.broker.shares import storage
from headrace.broker.shares.state_writer import StateWriter
from headrace.broker.shares.storage import STATE_TOPIC, StoredWindow
from headrace.broker.shares.window import Window
from headrace.protocol.error_codes import ErrorCode
from tests.broker.conftest import Connect
from tests.broker.requests import batch, create_topic, delete_topic, produce
from tests.broker.share_requests import (
    ACCEPT,
    RELEASE,
    WAIT_MS,
    ShareMember,
    group_offset,
    set_group_configs,
)
from tests.broker.shares.windows import KEY, contents, read_windows, work
from tests.broker.state_topics import parts_in, state_topic


def test_window_is_the_same_from_a_snapshot_and_its_updates(tmp_path: Path) -> None:
    async def write_and_read() -> None:
        with parts_in(tmp_path) as parts:
            topic = state_topic(parts, STATE_TOPIC)
            writer = StateWriter(parts.runtime, topic, on_dead=lambda stored, dead: None)
            stored = StoredWindow(KEY, Window(0))
            for number in range(2 * storage.UPDATES_PER_SNAPSHOT + 20):
                work(stored.window, stored.window.end_offset)
                await writer.written(stored)
                if number % 97 == 0:
                    found = read_windows(topic)[KEY]
                    assert contents(found.window)[0] == stored.window.start_offset
            found = read_windows(topic)[KEY]
            assert contents(found.window) == contents(stored.window)
            assert found.snapshot_epoch == stored.snapshot_epoch == 2
            assert found.snapshot_offset == stored.snapshot_offset

    asyncio.run(write_and_read())


def test_deleted_window_is_not_loaded(tmp_path: Path) -> None:
    async def write() -> None:
        with parts_in(tmp_path) as parts:
            topic = state_topic(parts, STATE_TOPIC)
            writer = StateWriter(parts.runtime, topic, on_dead=lambda stored, dead: None)
            await writer.written(StoredWindow(KEY, Window(0)))
            await topic.durable(topic.append([storage.tombstone(KEY)]))
            assert read_windows(topic) == {}

    asyncio.run(write())


def test_restart_keeps_what_was_accepted_and_how_often_the_rest_was_delivered(
    tmp_path: Path, connect: Connect
) -> None:
    with Broker(tmp_path) as broker:
        wire = connect(broker)
        topic_id = create_topic(wire, "t")
        set_group_configs(wire, "g", share_auto_offset_reset="earliest")
        produce(wire, "t", batch(*(b"x" for _ in range(10))))
        member = ShareMember(wire, "g", topic_id)
        member.offsets()
        assert member.acknowledge((0, 1, ACCEPT), (2, 4, RELEASE), (6, 6, ACCEPT)) is ErrorCode.NONE
    with Broker(tmp_path) as broker:
        wire = connect(broker)
        member = ShareMember(wire, "g", topic_id)
        assert member.offsets(max_wait_ms=WAIT_MS) == [2, 3, 4, 5, 7, 8, 9]
        assert member.held == [(2, 4, 2), (5, 5, 1), (7, 9, 1)]
        assert member.acknowledge((2, 5, ACCEPT), (7, 9, ACCEPT)) is ErrorCode.NONE
        offset = group_offset(wire, "g")
        assert offset is not None
        assert (offset.start_offset, offset.lag) == (10, 0)


def test_group_continues_at_its_start_offset_without_acknowledgements(
    tmp_path: Path, connect: Connect
) -> None:
    """It began at the end, which is elsewhere after the restart."""
    with Broker(tmp_path) as broker:
        wire = connect(broker)
        topic_id = create_topic(wire, "t")
        produce(wire, "t", batch(b"before"))
        assert ShareMember(wire, "g", topic_id).offsets() == []
        produce(wire, "t", batch(b"after"))
    with Broker(tmp_path) as broker:
        assert ShareMember(connect(broker), "g", topic_id).offsets(max_wait_ms=WAIT_MS) == [1]


def test_state_of_a_deleted_topic_is_deleted(tmp_path: Path, connect: Connect) -> None:
    with Broker(tmp_path) as broker:
        wire = connect(broker)
        topic_id = create_topic(wire, "t")
        ShareMember(wire, "g", topic_id).offsets()
        assert group_offset(wire, "g") is not None
        delete_topic(wire, "t")
        assert group_offset(wire, "g") is None
