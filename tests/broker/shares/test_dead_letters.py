"""Dead letters: which records get one, its content, and that it is written once."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest

from headrace.broker.embedded import Broker
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.records.batch import pack_batch, read_header
from headrace.records.compression import Codec
from headrace.records.record import Record, encode_batch
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.observing import eventually, metrics
from tests.broker.requests import NOW_MS, batch, create_topic, end_offset, new_name, produce, read_all
from tests.broker.share_requests import (
    ACCEPT,
    REJECT,
    RELEASE,
    WAIT_MS,
    ShareMember,
    group_offset,
    set_group_configs,
)


class Queue:
    """A topic, a group with a dead-letter topic, and a member of it."""

    def __init__(self, wire: Wire, **configs: object) -> None:
        self.wire = wire
        self.topic = new_name("work")
        self.group = new_name("g")
        self.dead = f"dlq.{self.group}"
        self.topic_id: uuid.UUID = create_topic(wire, self.topic)
        wanted = {
            "share_auto_offset_reset": "earliest",
            "errors_deadletterqueue_topic_name": self.dead,
            **configs,
        }
        assert set_group_configs(wire, self.group, **wanted) is ErrorCode.NONE
        self.member = ShareMember(wire, self.group, self.topic_id)

    def letters(self, count: int) -> list[dict[str, bytes | None]]:
        """The headers of the dead letters, when there are so many."""
        return [dict(record.headers) for record in self.records(count)]

    def records(self, count: int) -> list[Record]:
        def is_there() -> bool:
            try:
                return end_offset(self.wire, self.dead) >= count
            except AssertionError:
                return False

        eventually(is_there, f"{count} dead letters")
        return read_all(self.wire, self.dead)

    def start(self) -> int:
        """Where the group stands; -1 while the broker is still reading that."""
        offset = group_offset(self.wire, self.group)
        return -1 if offset is None else offset.start_offset


def test_rejected_record_becomes_a_dead_letter_with_its_origin(wire: Wire) -> None:
    queue = Queue(wire)
    original = Record(offset=0, timestamp_ms=NOW_MS, key=b"k", value=b"v", headers=(("kind", b"order"),))
    produce(wire, queue.topic, encode_batch([original]))
    queue.member.offsets()
    assert queue.member.acknowledge((0, 0, REJECT)) is ErrorCode.NONE
    (letter,) = queue.records(1)
    assert (letter.key, letter.value) == (b"k", b"v")
    assert dict(letter.headers) == {
        "kind": b"order",
        "__dlq.errors.topic": queue.topic.encode(),
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"0",
        "__dlq.errors.group": queue.group.encode(),
        "__dlq.errors.delivery.count": b"1",
        "__dlq.errors.message": f"rejected by consumer {queue.member.member_id}".encode(),
    }
    assert letter.timestamp_ms > NOW_MS, "its timestamp is that of the rejection: retention keeps it"
    eventually(lambda: queue.start() == 1, "the record is done")


def test_record_past_its_limit_becomes_a_letter(wire: Wire) -> None:
    queue = Queue(wire, share_delivery_count_limit=2)
    produce(wire, queue.topic, batch(b"poison", b"good"))
    for _ in range(2):
        assert queue.member.offsets(max_wait_ms=WAIT_MS)[0] == 0
        assert queue.member.acknowledge((0, 0, RELEASE)) is ErrorCode.NONE
    (letter,) = queue.letters(1)
    assert letter["__dlq.errors.delivery.count"] == b"2"
    assert letter["__dlq.errors.message"] == b"delivery limit of 2 reached"
    assert queue.member.acknowledge((1, 1, ACCEPT)) is ErrorCode.NONE
    eventually(lambda: queue.start() == 2, "the line went on")


def test_record_whose_lock_expired_too_often_becomes_a_letter(wire: Wire) -> None:
    queue = Queue(wire, share_delivery_count_limit=1, share_record_lock_duration_ms=100)
    produce(wire, queue.topic, batch(b"slow"))
    queue.member.offsets()
    assert queue.letters(1)[0]["__dlq.errors.message"] == b"delivery limit of 1 reached"


def test_reason_of_the_consumer_is_in_the_letter(wire: Wire) -> None:
    queue = Queue(wire)
    produce(wire, queue.topic, batch(b"0", b"1"))
    queue.member.offsets()
    if "__headrace_rejections" not in _topics(wire):
        create_topic(wire, "__headrace_rejections")
    key = f"{queue.group}/{queue.topic}/0/1".encode()
    logged = Record(offset=0, timestamp_ms=NOW_MS, key=key, value="no such address: Zoë".encode())
    assert produce(wire, "__headrace_rejections", encode_batch([logged])).error_code == 0
    assert queue.member.acknowledge((0, 1, REJECT)) is ErrorCode.NONE
    plain, explained = queue.letters(2)
    assert plain["__dlq.errors.message"] == f"rejected by consumer {queue.member.member_id}".encode()
    assert explained["__dlq.errors.message"] == "no such address: Zoë".encode()


def _topics(wire: Wire) -> set[str]:
    return {topic.name for topic in wire.request(MetadataRequest(topics=None), version=9).topics}


def test_letter_without_copy_has_only_the_origin_of_the_record(wire: Wire) -> None:
    queue = Queue(wire, errors_deadletterqueue_copy_record_enable="false")
    produce(wire, queue.topic, batch(b"secret", key=b"k"))
    queue.member.offsets()
    queue.member.acknowledge((0, 0, REJECT))
    (letter,) = queue.records(1)
    assert (letter.key, letter.value) == (None, None)


def test_group_without_dead_letter_topic_archives_rejected_records(wire: Wire) -> None:
    queue = Queue(wire, errors_deadletterqueue_topic_name="")
    produce(wire, queue.topic, batch(b"0"))
    queue.member.offsets()
    queue.member.acknowledge((0, 0, REJECT))
    assert queue.start() == 1
    assert queue.dead not in _topics(wire)


def test_thousands_of_letters_are_all_written_once(wire: Wire) -> None:
    queue = Queue(wire)
    produce(wire, queue.topic, batch(*(str(number).encode() for number in range(3000))))
    queue.member.offsets(max_records=3000)
    assert queue.member.acknowledge((0, 2999, REJECT)) is ErrorCode.NONE
    offsets = [letter["__dlq.errors.offset"] for letter in queue.letters(3000)]
    assert offsets == [str(number).encode() for number in range(3000)]
    eventually(lambda: queue.start() == 3000, "all are done")


def test_records_wait_until_the_dead_letter_topic_exists(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(metrics_port=0)
    wire = connect(broker)
    queue = Queue(wire, errors_deadletterqueue_auto_create_topics_enable="false")
    produce(wire, queue.topic, batch(b"0", b"1"))
    queue.member.offsets()
    queue.member.acknowledge((0, 0, REJECT), (1, 1, ACCEPT))
    failures = f'headrace_share_dead_letter_failures_total{{group="{queue.group}"}}'
    eventually(lambda: metrics(broker).get(failures, 0) >= 1, "the failure is counted")
    assert queue.start() == 0
    assert queue.member.offsets() == [], "it is not delivered again meanwhile"
    create_topic(wire, queue.dead)
    assert len(queue.letters(1)) == 1
    eventually(lambda: queue.start() == 2, "the records are done")


def test_topic_cannot_be_its_own_dead_letter_topic(wire: Wire) -> None:
    queue = Queue(wire)
    set_group_configs(wire, queue.group, errors_deadletterqueue_topic_name=queue.topic)
    produce(wire, queue.topic, batch(b"0"))
    queue.member.offsets()
    queue.member.acknowledge((0, 0, REJECT))
    assert queue.member.offsets() == []
    assert end_offset(wire, queue.topic) == 1


def test_record_that_died_twice_has_its_error_headers_once(wire: Wire) -> None:
    """Put back by hand with its headers: the new ones take their place."""
    queue = Queue(wire)
    old = (("__dlq.errors.topic", b"elsewhere"), ("kind", b"order"))
    again = Record(offset=0, timestamp_ms=NOW_MS, key=None, value=b"v", headers=old)
    produce(wire, queue.topic, encode_batch([again]))
    queue.member.offsets()
    queue.member.acknowledge((0, 0, REJECT))
    (letter,) = queue.records(1)
    names = [name for name, _ in letter.headers]
    assert len(names) == len(set(names))
    assert dict(letter.headers)["__dlq.errors.topic"] == queue.topic.encode()


def test_letters_of_a_batch_that_cannot_be_decoded_have_no_content(wire: Wire) -> None:
    """The checksum is right, and what it covers is nonsense: the broker stored it unread."""
    queue = Queue(wire)
    for one in (batch(b"0"), nonsense(3), batch(b"4")):
        assert produce(wire, queue.topic, one).error_code == 0
    queue.member.fetch()
    assert queue.member.acknowledge((0, 4, REJECT)) is ErrorCode.NONE
    letters = queue.records(5)
    assert [letter.value for letter in letters] == [b"0", None, None, None, b"4"]
    headers = [dict(letter.headers) for letter in letters]
    assert [one["__dlq.errors.offset"] for one in headers] == [b"0", b"1", b"2", b"3", b"4"]
    message = headers[1]["__dlq.errors.message"] or b""
    assert message.startswith(f"rejected by consumer {queue.member.member_id} (not copied: ".encode())
    eventually(lambda: queue.start() == 5, "the line went on")


def nonsense(records: int) -> bytes:
    header = read_header(batch(*(b"x" for _ in range(records))))
    return pack_batch(header, b"no record looks like this")


def test_letters_of_a_batch_that_decompresses_to_too_much_have_no_content(
    start_broker: StartBroker, connect: Connect
) -> None:
    wire = connect(start_broker(decompressed_batch_bytes_max=100_000))
    queue = Queue(wire)
    bomb = batch(*(bytes(90_000) for _ in range(2)), codec=Codec.ZSTD)
    assert len(bomb) < 1000
    for one in (bomb, batch(b"2")):
        assert produce(wire, queue.topic, one).error_code == 0
    queue.member.fetch()
    assert queue.member.acknowledge((0, 2, REJECT)) is ErrorCode.NONE
    letters = queue.records(3)
    assert [letter.value for letter in letters] == [None, None, b"2"]
    assert b"not copied: " in (dict(letters[0].headers)["__dlq.errors.message"] or b"")


def test_letter_that_is_too_large_for_the_topic_has_the_origin_of_the_record(wire: Wire) -> None:
    queue = Queue(wire)
    create_topic(wire, queue.dead, max_message_bytes="2000")
    produce(wire, queue.topic, batch(b"small", b"x" * 5000, b"y" * 1400, b"z" * 1400, key=b"k"))
    queue.member.offsets()
    assert queue.member.acknowledge((0, 3, REJECT)) is ErrorCode.NONE
    letters = queue.records(4)
    assert [letter.value for letter in letters] == [b"small", None, b"y" * 1400, b"z" * 1400]
    assert letters[1].key == b"k"
    message = dict(letters[1].headers)["__dlq.errors.message"] or b""
    assert re.search(rb"\(not copied: \d+ bytes are too many for this topic\)", message)


def test_reason_after_a_batch_that_cannot_be_decoded_is_found(wire: Wire) -> None:
    queue = Queue(wire)
    produce(wire, queue.topic, batch(b"0"))
    queue.member.offsets()
    if "__headrace_rejections" not in _topics(wire):
        create_topic(wire, "__headrace_rejections")
    logged = Record(
        offset=0, timestamp_ms=NOW_MS, key=f"{queue.group}/{queue.topic}/0/0".encode(), value=b"too old"
    )
    for one in (nonsense(1), encode_batch([logged])):
        assert produce(wire, "__headrace_rejections", one).error_code == 0
    assert queue.member.acknowledge((0, 0, REJECT)) is ErrorCode.NONE
    assert queue.letters(1)[0]["__dlq.errors.message"] == b"too old"


@pytest.mark.parametrize("is_written", [False, True])
def test_letter_that_a_crash_interrupted_is_written_once(
    tmp_path: Path, connect: Connect, is_written: bool
) -> None:
    """The broker crashes after a rejection: once before the letter was written, once after.

    Its letter waits for a topic that is missing. While the broker is away, the group is given another topic, in which
    the letter is or is not already, behind something that is no letter.
    """
    with Broker(tmp_path) as broker:
        wire = connect(broker)
        queue = Queue(wire, errors_deadletterqueue_auto_create_topics_enable="false")
        produce(wire, queue.topic, batch(b"0"))
        queue.member.offsets()
        queue.member.acknowledge((0, 0, REJECT))
        missing, queue.dead = queue.dead, f"{queue.dead}.other"
        create_topic(wire, queue.dead)
        produce(wire, queue.dead, nonsense(1))
        if is_written:
            produce(wire, queue.dead, encode_batch([letter_of(queue, 0)]))
    configs = tmp_path / "metadata" / "group-configs.json"
    configs.write_text(configs.read_text().replace(missing, queue.dead))
    with Broker(tmp_path) as broker:
        queue.wire = connect(broker)
        eventually(lambda: queue.start() == 1, "the record is done")
        assert [record.value for record in read_all(queue.wire, queue.dead, offset=1)] == [b"0"]


def letter_of(queue: Queue, offset: int) -> Record:
    headers = (
        ("__dlq.errors.topic", queue.topic.encode()),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", str(offset).encode()),
        ("__dlq.errors.group", queue.group.encode()),
    )
    return Record(offset=0, timestamp_ms=NOW_MS, key=None, value=str(offset).encode(), headers=headers)
