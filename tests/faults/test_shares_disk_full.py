"""A full disk under share groups: what was confirmed holds, and everything else is tried again."""

from __future__ import annotations

import errno
import os
import random
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.broker import state_topic
from headrace.broker.server import Server
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.delete_groups import DeleteGroupsRequest
from headrace.records.record import Record, encode_batch
from headrace.testing.failing_filesystem import FailingFileSystem
from headrace.testing.wire import Wire
from tests.broker.observing import eventually
from tests.broker.requests import NOW_MS, batch, create_topic, produce, read_all
from tests.broker.share_requests import ACCEPT, REJECT, WAIT_MS, ShareMember, group_offset, set_group_configs
from tests.faults.faulty_broker import Unreadable, broker_on
from tests.faults.full_disk_broker import FullDiskBroker
from tests.faults.test_shares_killed import (
    DEAD,
    GROUP,
    Ledger,
    at_work,
    check,
    eventually_done,
    prepare,
)
from tests.faults.test_shares_killed import write as write_values

MESSAGE_HEADER = "__dlq.errors.message"
STATE = "*/__share_group_state-0/*.log"


@pytest.fixture
def files() -> FailingFileSystem:
    return FailingFileSystem()


@pytest.fixture(params=["stop", "kill"])
def ending(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def broker(files: FailingFileSystem, data_dir: Path) -> Iterator[tuple[Server, Wire]]:
    with broker_on(files, data_dir, durability="os") as server, Wire(server.bootstrap) as wire:
        yield server, wire


def left_behind(data_dir: Path, ending: str) -> Path:
    """Where to start again: after a stop the same folder, after a kill what a broker that does nothing has there."""
    if ending == "stop":
        return data_dir
    copy = data_dir.with_name("killed")
    shutil.copytree(data_dir, copy)
    return copy


def fill(files: FailingFileSystem, pattern: str = STATE, *, times: int | None = None) -> None:
    files.fail("write", pattern, error_number=errno.ENOSPC, times=times, bytes_written_first=3)


def write(wire: Wire, topic: str, count: int, *, partition: int = 0) -> None:
    values = (str(number).encode() for number in range(count))
    assert produce(wire, topic, batch(*values), partition=partition).error_code == 0


def delete_group(wire: Wire, group: str) -> ErrorCode:
    (result,) = wire.request(DeleteGroupsRequest(groups_names=(group,))).results
    return ErrorCode(result.error_code)


@pytest.mark.parametrize("fails_at", ["the first state", "a later one"])
def test_confirmed_accepts_are_not_redelivered(
    files: FailingFileSystem, tmp_path: Path, ending: str, fails_at: str
) -> None:
    data_dir = tmp_path / "data"
    with broker(files, data_dir) as (_, wire):
        topic_id = create_topic(wire, "t")
        set_group_configs(wire, "g", share_auto_offset_reset="earliest")
        write(wire, "t", 30)
        if fails_at == "the first state":
            ShareMember(wire, "other", topic_id).offsets()  # the topic of states is there
            fill(files, times=2)
        member = ShareMember(wire, "g", topic_id)
        eventually(lambda: bool(member.fetch(max_records=10) and member.held), "the first records")
        if fails_at == "a later one":
            fill(files, times=2)
            assert member.acknowledge((0, 3, ACCEPT)) is ErrorCode.KAFKA_STORAGE_ERROR
            assert member.acknowledge((4, 5, ACCEPT)) is ErrorCode.KAFKA_STORAGE_ERROR
            assert member.acknowledge((6, 9, ACCEPT)) is ErrorCode.NONE
        else:
            assert member.acknowledge((0, 9, ACCEPT)) is ErrorCode.NONE
        member.offsets(max_records=20)
        assert member.acknowledge((10, 26, ACCEPT), (28, 29, ACCEPT)) is ErrorCode.NONE
        where = left_behind(data_dir, ending)
    with broker(files, where) as (_, wire):
        assert ShareMember(wire, "g", topic_id).offsets(max_wait_ms=WAIT_MS) == [27]


def test_group_that_started_on_a_full_disk_misses_no_record(
    files: FailingFileSystem, tmp_path: Path, ending: str
) -> None:
    """It starts at the end, which is another offset after the restart."""
    data_dir = tmp_path / "data"
    with broker(files, data_dir) as (_, wire):
        topic_id = create_topic(wire, "t")
        ShareMember(wire, "other", topic_id).offsets()
        write(wire, "t", 5)
        fill(files)
        member = ShareMember(wire, "g", topic_id)
        assert member.fetch().error_code == ErrorCode.KAFKA_STORAGE_ERROR
        write(wire, "t", 5)
        files.heal()
        assert member.offsets(max_records=1, max_wait_ms=WAIT_MS) == [5]
        assert member.acknowledge((5, 5, ACCEPT)) is ErrorCode.NONE
        where = left_behind(data_dir, ending)
    with broker(files, where) as (_, wire):
        assert ShareMember(wire, "g", topic_id).offsets(max_wait_ms=WAIT_MS) == [6, 7, 8, 9]


def test_group_of_which_only_some_states_were_stored_gets_no_old_records(
    files: FailingFileSystem, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions without a state must not look like those that the topic has got since."""
    monkeypatch.setattr(state_topic, "BATCH_BYTES_MAX", 1)  # each record of a state is a batch by itself
    data_dir = tmp_path / "data"
    with broker(files, data_dir) as (_, wire):
        topic_id = create_topic(wire, "t", partitions=3)
        for partition in range(3):
            write(wire, "t", 5, partition=partition)
        stored = files.fail("write", STATE, error_number=errno.ENOSPC, times=None, skip=1)
        member = ShareMember(wire, "g", topic_id)
        assert member.fetch().error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert stored.skip == 0, "one state was stored"
        where = left_behind(data_dir, ending)
    files.heal()
    with broker(files, where) as (_, wire):
        members = [ShareMember(wire, "g", topic_id, partition=partition) for partition in range(3)]
        assert [member.offsets() for member in members] == [[], [], []]


def test_state_that_had_no_room_is_stored_when_there_is_some(
    files: FailingFileSystem, tmp_path: Path, ending: str
) -> None:
    """Only time triggers it: there is no other request."""
    data_dir = tmp_path / "data"
    with broker(files, data_dir) as (_, wire):
        topic_id = create_topic(wire, "t")
        set_group_configs(wire, "g", share_auto_offset_reset="earliest", share_record_lock_duration_ms=60_000)
        write(wire, "t", 3)
        member = ShareMember(wire, "g", topic_id)
        assert member.offsets() == [0, 1, 2]
        fill(files)
        assert member.acknowledge((0, 1, ACCEPT)) is ErrorCode.KAFKA_STORAGE_ERROR
        files.heal()
        before = state_bytes(data_dir)
        eventually(lambda: state_bytes(data_dir) > before, "the state is stored")
        where = left_behind(data_dir, ending)
    with broker(files, where) as (_, wire):
        assert ShareMember(wire, "g", topic_id).offsets(max_wait_ms=WAIT_MS) == [2]


def state_bytes(data_dir: Path) -> int:
    return sum(file.stat().st_size for file in (data_dir / "__share_group_state-0").glob("*.log"))


def test_group_that_could_not_be_deleted_is_deleted_by_the_next_try(
    files: FailingFileSystem, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    with broker(files, data_dir) as (_, wire):
        topic_id = create_topic(wire, "t")
        set_group_configs(wire, "g", share_auto_offset_reset="earliest")
        write(wire, "t", 3)
        member = ShareMember(wire, "g", topic_id)
        member.offsets()
        assert member.acknowledge((0, 2, ACCEPT)) is ErrorCode.NONE
        fill(files)
        assert delete_group(wire, "g") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert group_offset(wire, "g") is not None
        files.heal()
        assert delete_group(wire, "g") is ErrorCode.NONE
    with broker(files, data_dir) as (_, wire):
        assert group_offset(wire, "g") is None
        assert ShareMember(wire, "g", topic_id).offsets(max_wait_ms=WAIT_MS) == [0, 1, 2]


def test_group_that_was_half_deleted_keeps_what_it_accepts_later(
    files: FailingFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_topic, "BATCH_BYTES_MAX", 1)  # each record of a state is a batch by itself
    with broker(files, tmp_path / "data") as (_, wire):
        topic_id = create_topic(wire, "t", partitions=2)
        set_group_configs(wire, "g", share_auto_offset_reset="earliest")
        members = [ShareMember(wire, "g", topic_id, partition=partition) for partition in range(2)]
        for member in members:
            write(wire, "t", 3, partition=member.partition)
            assert member.offsets() == [0, 1, 2]
        files.fail("write", STATE, error_number=errno.ENOSPC, skip=1)
        assert delete_group(wire, "g") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        for member in members:
            assert member.acknowledge((0, 1, ACCEPT)) is ErrorCode.NONE
    with broker(files, tmp_path / "data") as (_, wire):
        for partition in range(2):
            member = ShareMember(wire, "g", topic_id, partition=partition)
            assert member.offsets(max_wait_ms=WAIT_MS) == [2]


def test_states_that_could_not_be_read_at_the_start_are_read_again(tmp_path: Path) -> None:
    with broker(FailingFileSystem(), tmp_path / "data") as (_, wire):
        topic_id = create_topic(wire, "t")
        set_group_configs(wire, "g", share_auto_offset_reset="earliest")
        write(wire, "t", 3)
        member = ShareMember(wire, "g", topic_id)
        member.offsets()
        assert member.acknowledge((0, 1, ACCEPT)) is ErrorCode.NONE
    files = Unreadable(pattern=STATE, failing=2)
    with broker(files, tmp_path / "data") as (_, wire):
        eventually(lambda: group_offset(wire, "g") is not None, "the states are read")
        assert files.failing == 0
        assert ShareMember(wire, "g", topic_id).offsets(max_wait_ms=WAIT_MS) == [2]


def rejected_with_reasons(wire: Wire, values: Sequence[bytes]) -> ShareMember:
    """A member that has rejected everything, with a reason for each."""
    topic_id = create_topic(wire, "t")
    set_group_configs(wire, "g", share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name="dead")
    for value in values:
        assert produce(wire, "t", batch(value)).error_code == 0
    create_topic(wire, "__headrace_rejections")
    reasons = [
        Record(
            offset=offset, timestamp_ms=NOW_MS, key=f"g/t/0/{offset}".encode(), value=b"reason %d" % offset
        )
        for offset in range(len(values))
    ]
    assert produce(wire, "__headrace_rejections", encode_batch(reasons)).error_code == 0
    member = ShareMember(wire, "g", topic_id)
    member.offsets()
    assert member.acknowledge((0, len(values) - 1, REJECT)) is ErrorCode.NONE
    return member


def letters_once_done(wire: Wire, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Value and reason of every letter, when no record waits for its own any more."""

    def is_done() -> bool:
        offset = group_offset(wire, "g")
        return offset is not None and offset.start_offset == count

    eventually(is_done, "every record has its letter")
    return [(letter.value, dict(letter.headers)[MESSAGE_HEADER]) for letter in read_all(wire, "dead")]


@pytest.mark.parametrize("rejected", [0, 1, 2])
def test_letters_and_their_reasons_are_there_once_after_a_full_disk(
    files: FailingFileSystem, tmp_path: Path, rejected: int
) -> None:
    """They are too large for one batch, and the disk is full before one of them."""
    values = [bytes([65 + number]) * 400_000 for number in range(6)]
    with broker(files, tmp_path / "data") as (_, wire):
        create_topic(wire, "dead")
        files.fail("write", "*/dead-0/*.log", error_number=errno.ENOSPC, skip=rejected)
        rejected_with_reasons(wire, values)
        assert letters_once_done(wire, 6) == [
            (value, b"reason %d" % number) for number, value in enumerate(values)
        ]


def test_letters_wait_for_the_state_that_announces_them(files: FailingFileSystem, tmp_path: Path) -> None:
    """A reject that could not be stored, and is stored later without another request."""
    with broker(files, tmp_path / "data") as (_, wire):
        topic_id = create_topic(wire, "t")
        set_group_configs(
            wire, "g", share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name="dead"
        )
        write(wire, "t", 2)
        member = ShareMember(wire, "g", topic_id)
        assert member.offsets() == [0, 1]
        fill(files)
        assert member.acknowledge((0, 1, REJECT)) is ErrorCode.KAFKA_STORAGE_ERROR
        files.heal()
        reason = f"rejected by consumer {member.member_id}".encode()
        assert letters_once_done(wire, 2) == [(b"0", reason), (b"1", reason)]


def test_letters_whose_fsync_failed_are_there_once_after_the_next_start(
    files: FailingFileSystem, tmp_path: Path
) -> None:
    """They may be on the disk or not: the broker looks before it writes them again."""
    data_dir = tmp_path / "data"
    with broker_on(files, data_dir, durability="fsync") as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "dead")
        failed = files.fail("sync", "*/dead-0/*.log")
        rejected_with_reasons(wire, [b"0", b"1"])
        eventually(lambda: failed.happened == 1, "the fsync fails")
    with broker(files, data_dir) as (_, wire):
        assert letters_once_done(wire, 2) == [(b"0", b"reason 0"), (b"1", b"reason 1")]


def test_letters_whose_fsync_failed_survive_a_power_cut_after_their_retry(
    files: FailingFileSystem, tmp_path: Path
) -> None:
    """The retry finds them in the log, which does not mean that they are on the disk."""
    data_dir = tmp_path / "data"
    with broker_on(files, data_dir, durability="fsync") as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "dead")
        files.fail("sync", "*/dead-0/*.log")
        rejected_with_reasons(wire, [b"0", b"1"])
        [share] = server.parts.shares.of_group("g")
        counters = share.counters
        eventually(lambda: counters["dead_letter_failures"] + counters["dead_letters"] > 1, "a retry")
    files.drop_unsynced()
    with broker(files, data_dir) as (_, wire):
        assert letters_once_done(wire, 2) == [(b"0", b"reason 0"), (b"1", b"reason 1")]


def test_full_disks_under_load_lose_and_repeat_nothing(tmp_path: Path) -> None:
    run_full_disks(tmp_path, "latest", rounds=2, records_per_round=500)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_full_disks_a_hundred_times(tmp_path: Path, durability: str) -> None:
    for reset in ("earliest", "latest"):
        run_full_disks(tmp_path / reset, reset, rounds=50, records_per_round=1000, durability=durability)


def run_full_disks(
    tmp_path: Path, reset: str, *, rounds: int, records_per_round: int, durability: str = "os"
) -> None:
    """Workers accept, release and reject while the disk fills up; the broker is killed or stopped, full or not."""
    seed = int(os.environ.get("HEADRACE_TEST_KILL_SEED", random.SystemRandom().randrange(2**32)))
    print(f"HEADRACE_TEST_KILL_SEED={seed}")
    chance = random.Random(seed)
    ledger = Ledger()
    total = 0

    def work(process: FullDiskBroker) -> None:
        """More records, of which some are delivered, and some not yet."""
        nonlocal total
        count = records_per_round // 2
        write_values(process, range(total, total + count))
        total += count
        wanted = total - chance.randrange(1, count)
        eventually(lambda: len(ledger.delivered) >= wanted, "work continues")

    tmp_path.mkdir(exist_ok=True)
    with FullDiskBroker(tmp_path / "data", durability=durability) as process:
        topic_id = prepare(process, share_auto_offset_reset=reset)
        begin(process, topic_id)
        with at_work(process, topic_id, ledger, chance):
            for number in range(rounds):
                work(process)
                process.fill(chance.choice((0, 1, 100, chance.randrange(5000))))
                time.sleep(chance.uniform(0.05, 1.3))
                if chance.random() < 0.6:
                    process.empty()
                    work(process)
                if (number + seed) % 2:
                    process.kill()
                else:
                    assert process.stop() == 0
                process.empty()
                process.start()
            eventually_done(process, total)
        check(process, ledger, total)
        with Wire(process.bootstrap) as wire:
            messages = {dict(letter.headers)[MESSAGE_HEADER] or b"" for letter in read_all(wire, DEAD)}
        assert all(message.startswith(b"rejected by consumer") for message in messages), messages
    print(
        f"{rounds} full disks, {total} records, {sum(ledger.delivered.values())} deliveries, "
        f"{len(ledger.accepted)} accepts confirmed, {dict(ledger.rejections)} rejected"
    )


def begin(process: FullDiskBroker, topic_id: uuid.UUID) -> None:
    """The group takes its place before there is anything to read."""
    with Wire(process.bootstrap) as wire:
        assert ShareMember(wire, GROUP, topic_id).offsets() == []
