"""Fetch sessions (KIP-227) over the wire: named once, then only what changes; bounded; errors that reset the client."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from headrace.broker.embedded import Broker
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.observing import metrics
from tests.broker.requests import (
    FETCH_BY_NAME,
    batch,
    create_topic,
    delete_topic,
    new_name,
    produce,
    values_of,
)

BY_ID = 18


def session_request(
    topic: str | uuid.UUID,
    offsets: dict[int, int],
    *,
    session_id: int = 0,
    epoch: int = 0,
    forgotten: tuple[int, ...] = (),
    max_wait_ms: int = 0,
) -> FetchRequest:
    named: dict[str, Any] = {"topic": topic} if isinstance(topic, str) else {"topic_id": topic}
    partitions = tuple(FetchPartition(partition=one, fetch_offset=at) for one, at in offsets.items())
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        session_id=session_id,
        session_epoch=epoch,
        topics=(FetchTopic(partitions=partitions, **named),) if partitions else (),
        forgotten_topics_data=(ForgottenTopic(partitions=forgotten, **named),) if forgotten else (),
    )


def values_by_partition(response: Any) -> dict[int, list[bytes | None]]:
    """Partition -> values, for the partitions of a response."""
    return {
        part.partition_index: values_of(part) for topic in response.responses for part in topic.partitions
    }


@pytest.fixture
def three(wire: Wire) -> str:
    name = new_name()
    create_topic(wire, name, partitions=3)
    for index in range(3):
        produce(wire, name, batch(b"first %d" % index), partition=index)
    return name


def open_session(wire: Wire, topic: str, offsets: dict[int, int]) -> Any:
    response = wire.request(session_request(topic, offsets), version=FETCH_BY_NAME)
    assert (response.error_code, response.session_id != 0) == (0, True)
    return response


def test_first_response_has_every_partition_and_later_ones_only_changes(wire: Wire, three: str) -> None:
    first = open_session(wire, three, {0: 1, 1: 1, 2: 0})
    assert values_by_partition(first) == {0: [], 1: [], 2: [b"first 2"]}
    session = first.session_id
    follow = wire.request(session_request(three, {2: 1}, session_id=session, epoch=1), version=FETCH_BY_NAME)
    assert (values_by_partition(follow), follow.session_id) == ({}, session)
    produce(wire, three, batch(b"second 1"), partition=1)
    news = wire.request(session_request(three, {}, session_id=session, epoch=2), version=FETCH_BY_NAME)
    assert values_by_partition(news) == {1: [b"second 1"]}


def test_position_in_a_session_moves_only_by_a_request(wire: Wire, three: str) -> None:
    session = open_session(wire, three, {0: 0}).session_id
    again = wire.request(session_request(three, {}, session_id=session, epoch=1), version=FETCH_BY_NAME)
    assert values_by_partition(again) == {0: [b"first 0"]}
    moved = wire.request(session_request(three, {0: 1}, session_id=session, epoch=2), version=FETCH_BY_NAME)
    assert values_by_partition(moved) == {}


def test_forgotten_partition_is_no_longer_read(wire: Wire, three: str) -> None:
    session = open_session(wire, three, {0: 1, 1: 1}).session_id
    produce(wire, three, batch(b"second 0"), partition=0)
    produce(wire, three, batch(b"second 1"), partition=1)
    request = session_request(three, {}, session_id=session, epoch=1, forgotten=(0,))
    assert values_by_partition(wire.request(request, version=FETCH_BY_NAME)) == {1: [b"second 1"]}


def test_partition_can_be_added_to_a_session(wire: Wire, three: str) -> None:
    session = open_session(wire, three, {0: 1}).session_id
    request = session_request(three, {2: 0}, session_id=session, epoch=1)
    assert values_by_partition(wire.request(request, version=FETCH_BY_NAME)) == {2: [b"first 2"]}


def test_session_waits_for_data_of_any_of_its_partitions(
    headrace_broker: Broker, connect: Connect, three: str
) -> None:
    reader, writer = connect(headrace_broker), connect(headrace_broker)
    session = open_session(reader, three, {0: 1, 1: 1, 2: 1}).session_id
    request = session_request(three, {}, session_id=session, epoch=1, max_wait_ms=2**31 - 1)
    reader.send(request, version=FETCH_BY_NAME)
    produce(writer, three, batch(b"second 2"), partition=2)
    assert values_by_partition(reader.receive()) == {2: [b"second 2"]}


def test_unknown_session_is_rejected(wire: Wire, three: str) -> None:
    response = wire.request(session_request(three, {}, session_id=12345, epoch=1), version=FETCH_BY_NAME)
    assert (response.error_code, response.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ())


@pytest.mark.parametrize("epoch", [2, 7, -2])
def test_epoch_out_of_turn_is_invalid_and_the_right_one_still_works(
    wire: Wire, three: str, epoch: int
) -> None:
    session = open_session(wire, three, {0: 0}).session_id
    wrong = wire.request(session_request(three, {}, session_id=session, epoch=epoch), version=FETCH_BY_NAME)
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    right = wire.request(session_request(three, {}, session_id=session, epoch=1), version=FETCH_BY_NAME)
    assert right.error_code == 0


def test_closed_session_is_unknown(wire: Wire, three: str) -> None:
    session = open_session(wire, three, {0: 0}).session_id
    closing = wire.request(
        session_request(three, {0: 0}, session_id=session, epoch=-1), version=FETCH_BY_NAME
    )
    assert (closing.error_code, closing.session_id) == (0, 0)
    after = wire.request(session_request(three, {}, session_id=session, epoch=1), version=FETCH_BY_NAME)
    assert after.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_session_opened_with_names_rejects_ids(wire: Wire, three: str) -> None:
    session = open_session(wire, three, {0: 0}).session_id
    response = wire.request(session_request(uuid.uuid4(), {0: 0}, session_id=session, epoch=1), version=BY_ID)
    assert response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_deleted_topic_is_an_error_of_its_session_until_it_is_forgotten(wire: Wire) -> None:
    name = new_name()
    topic_id = create_topic(wire, name)
    session = wire.request(session_request(topic_id, {0: 0}), version=BY_ID).session_id
    delete_topic(wire, name)
    for epoch in (1, 2):
        response = wire.request(session_request(topic_id, {}, session_id=session, epoch=epoch), version=BY_ID)
        (topic,) = response.responses
        assert [part.error_code for part in topic.partitions] == [ErrorCode.UNKNOWN_TOPIC_ID]
    request = session_request(topic_id, {}, session_id=session, epoch=3, forgotten=(0,))
    assert wire.request(request, version=BY_ID).responses == ()


def test_idlest_session_is_evicted_when_there_are_too_many(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(durability="os", fetch_sessions_max=2, metrics_port=0)
    wire = connect(broker)
    create_topic(wire, "t")
    first = open_session(wire, "t", {0: 0}).session_id
    second = open_session(wire, "t", {0: 0}).session_id
    # The first one is used again, so the second is the idlest.
    wire.request(session_request("t", {}, session_id=first, epoch=1), version=FETCH_BY_NAME)
    open_session(wire, "t", {0: 0})
    assert metrics(broker)["headrace_fetch_sessions"] == 2
    codes = [
        wire.request(
            session_request("t", {}, session_id=session, epoch=epoch), version=FETCH_BY_NAME
        ).error_code
        for session, epoch in ((first, 2), (second, 1))
    ]
    assert codes == [0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND]


def test_without_room_for_sessions_fetches_work_without_them(
    start_broker: StartBroker, connect: Connect
) -> None:
    wire = connect(start_broker(durability="os", fetch_sessions_max=0))
    create_topic(wire, "t")
    produce(wire, "t", batch(b"a"))
    response = wire.request(session_request("t", {0: 0}), version=FETCH_BY_NAME)
    assert (response.session_id, values_by_partition(response)) == (0, {0: [b"a"]})


def test_full_responses_starve_no_partition_of_a_session(wire: Wire) -> None:
    name = new_name()
    create_topic(wire, name, partitions=3)
    for index in range(3):
        for _ in range(4):
            produce(wire, name, batch(b"x" * 1000), partition=index)
    request = session_request(name, {0: 0, 1: 0, 2: 0})
    session, served = 0, []
    for epoch in range(3):
        # Room for one batch; the client requests the same again.
        response = wire.request(
            FetchRequest(
                max_wait_ms=0,
                max_bytes=1,
                session_id=session,
                session_epoch=epoch,
                topics=request.topics if epoch == 0 else (),
            ),
            version=FETCH_BY_NAME,
        )
        session = response.session_id
        served += [index for index, values in values_by_partition(response).items() if values]
    assert sorted(served) == [0, 1, 2]


def test_idlest_session_is_evicted_when_all_partitions_take_too_much_memory(
    start_broker: StartBroker, connect: Connect
) -> None:
    wire = connect(start_broker(durability="os", fetch_sessions_bytes_max=10_000))
    many = dict.fromkeys(range(10), 0)

    def open_session() -> int:
        opened: int = wire.request(session_request("t", many), version=FETCH_BY_NAME).session_id
        return opened

    def goes_on(session_id: int, epoch: int = 1, **changes: Any) -> bool:
        request = session_request("t", changes.pop("more", {}), session_id=session_id, epoch=epoch, **changes)
        code: int = wire.request(request, version=FETCH_BY_NAME).error_code
        return code != ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    idle, busy = open_session(), open_session()
    assert not goes_on(idle)
    assert goes_on(busy, forgotten=tuple(many))
    another = open_session()
    assert goes_on(busy, 2), "forgotten partitions made room"
    # One that takes too much by itself is served, and then has to open another session.
    assert goes_on(another, more=dict.fromkeys(range(10, 100), 0))
    assert not goes_on(another, 2)
    assert open_session()
