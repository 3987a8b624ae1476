"""An archive that fails, and a broker that ends amid archiving: nothing is lost or stored twice, garbage is deleted."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headrace.log.archive.archived_segments import LIST_NAME, decode_list
from headrace.log.archive.object_names import base_offset_of
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.testing.failing_archive import ArchiveOperation
from headrace.testing.wire import Wire
from tests.broker.config_requests import TOPIC as TOPIC_CONFIGS
from tests.broker.config_requests import alter
from tests.broker.observing import eventually
from tests.broker.requests import batch as batch_of
from tests.broker.requests import create_topic, produce
from tests.broker.requests import read_all as read_over_wire
from tests.faults.archive_station import CONFIGS, RECORDS, TOPIC, Station, copy_of, station
from tests.faults.broker_process import BrokerProcess
from tests.faults.dying_archive import DIES_VARIABLE
from tests.log.batches import NOW_MS, read_all, values

ALL = [b"%d" % number for number in range(RECORDS)]
# A pass of these tests has some 60 steps; far more means that it never ends.
STEPS_MAX = 300


def cut_at_every_step(
    prepared: Path, tmp_path: Path, work: Callable[[Station], None], check: Callable[[Path], None]
) -> int:
    """Do the work with the power going before each of its steps in turn, and check what a start finds; how many."""
    for step in range(STEPS_MAX):
        folder = copy_of(prepared, tmp_path / f"cut-{step}")
        finished: list[bool] = []
        with station(folder) as cut:
            cut.power.lose_power_at(step)
            work(cut)
            finished.append(True)
        cut.power.drop_unsynced()
        check(folder)
        if finished:
            return step
    raise AssertionError(f"it was not done after {STEPS_MAX} steps")


def all_is_there_and_tidy_after_one_more_pass(folder: Path) -> None:
    with station(folder) as after:
        assert values(read_all(after.log)) == ALL[after.log.start_offset :]
        after.tend()
        assert values(read_all(after.log)) == ALL[after.log.start_offset :]
        assert after.objects() == after.expected_objects()
        assert len(after.log.segments) == 1
        after.tend()
    with station(folder) as again:
        assert values(read_all(again.log)) == ALL[again.log.start_offset :]
        assert again.health.failures == again.health.corrupt_reads == 0


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    folder = tmp_path / "filled"
    folder.mkdir()
    with station(folder) as made:
        made.fill()
        assert len(made.log.segments) > 3
    return folder


@pytest.fixture
def archived(filled: Path) -> Path:
    with station(filled) as made:
        made.tend()
        assert len(made.log.segments) == 1
        assert len(made.log.archive.entries) > 2
    return filled


def test_power_cut_at_any_step_of_archiving_loses_nothing(filled: Path, tmp_path: Path) -> None:
    def check(folder: Path) -> None:
        with station(folder) as after:
            assert after.log.start_offset == 0
        all_is_there_and_tidy_after_one_more_pass(folder)

    steps = cut_at_every_step(filled, tmp_path, Station.tend, check)
    assert steps > 20


def test_power_cut_at_any_step_of_expiry_leaves_no_record_half_deleted(
    archived: Path, tmp_path: Path
) -> None:
    def expire(cut: Station) -> None:
        start = cut.log.archive.entries[2].base_offset - 1
        cut.log.retention.delete_records_before(start)
        cut.topics.checkpoint_starts()
        cut.tend()

    steps = cut_at_every_step(archived, tmp_path, expire, all_is_there_and_tidy_after_one_more_pass)
    assert steps > 8


def test_power_cut_at_any_step_of_a_topics_deletion_ends_with_an_empty_archive(
    archived: Path, tmp_path: Path
) -> None:
    def delete(cut: Station) -> None:
        topic = cut.topics.get(TOPIC)
        assert topic is not None
        cut.topics.delete(topic)
        cut.tend()

    def check(folder: Path) -> None:
        with station(folder) as after:
            if after.topics.get(TOPIC) is not None:
                assert values(read_all(after.log)) == ALL
                return
            after.tend()
            assert after.objects() == set()
            assert after.topics.archive_deletions.pending() == []

    assert cut_at_every_step(archived, tmp_path, delete, check) > 15


def test_power_cut_at_any_step_of_switching_off_ends_with_an_empty_archive(
    archived: Path, tmp_path: Path
) -> None:
    local = {**CONFIGS, "remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}

    def switch_off(cut: Station) -> None:
        topic = cut.topics.get(TOPIC)
        assert topic is not None
        cut.topics.alter_configs(topic, local)
        cut.tend()

    def check(folder: Path) -> None:
        with station(folder) as after:
            assert values(read_all(after.log)) == ALL[after.log.start_offset :]
            if after.log.config.is_archived:
                assert after.log.start_offset == 0
                return
            after.tend()
            assert after.objects() == set()
            assert not (folder / "data" / f"{TOPIC}-0" / LIST_NAME).exists()

    assert cut_at_every_step(archived, tmp_path, switch_off, check) > 8


@pytest.mark.parametrize("operation", ["put", "read", "list"])
def test_archive_that_fails_delays_the_removal_of_local_copies(
    filled: Path, operation: ArchiveOperation
) -> None:
    with station(filled) as made:
        made.store.fail(operation, times=None)
        local_segments = len(made.log.segments)
        for _ in range(3):
            made.clock.advance_ms(10_000_000)
            made.tend()
        assert len(made.log.segments) == local_segments
        assert values(read_all(made.log)) == ALL
        waiting, size_bytes = made.archiver.waiting()
        assert (waiting, made.log.archive.entries) == (local_segments - 1, ())
        assert size_bytes > 0
        assert made.health.failures == 3
        assert not made.health.is_reachable
        made.store.heal()
        made.clock.advance_ms(10_000_000)
        made.tend()
        assert made.health.is_reachable
        assert made.archiver.waiting() == (0, 0)
    all_is_there_and_tidy_after_one_more_pass(filled)


@pytest.mark.parametrize("name", ["*.log", "*.index", "*.manifest"])
def test_one_object_that_can_not_be_written_is_tried_again(filled: Path, name: str) -> None:
    with station(filled) as made:
        made.store.fail("put", name, skip=1)
        made.tend()
        assert 0 < len(made.log.archive.entries) < 3
        made.clock.advance_ms(10_000_000)
        made.tend()
        assert made.archiver.waiting() == (0, 0)
    all_is_there_and_tidy_after_one_more_pass(filled)


def test_deletion_that_fails_is_retried_when_the_archive_is_available(archived: Path) -> None:
    with station(archived) as made:
        made.log.retention.delete_records_before(made.log.archive.entries[2].base_offset)
        made.store.fail("delete", skip=1, times=1)
        made.tend()
        assert made.objects() > made.expected_objects()
        made.clock.advance_ms(10_000_000)
        made.tend()
        assert made.objects() == made.expected_objects()


def test_pauses_double_up_to_their_bound_and_end_with_the_first_success(filled: Path) -> None:
    with station(filled) as made:
        made.store.fail("list", times=None)
        tries: list[int] = []
        for second in range(1300):
            before = made.health.failures
            made.tend()
            if made.health.failures > before:
                tries.append(second)
            made.clock.advance_ms(1000)
        pauses = [after - before for before, after in pairwise(tries)]
        assert pauses == [30, 60, 120, 240, 300, 300]
        made.store.heal()
        made.clock.advance_ms(300_000)
        made.tend()
        assert made.archiver.waiting() == (0, 0)


def test_outage_and_its_end_are_reported_once(filled: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with station(filled) as made:
        made.store.fail("put", times=3)
        for _ in range(6):
            made.clock.advance_ms(10_000_000)
            made.tend()
    logged = [text for record in caplog.records if "the archive" in (text := record.getMessage())]
    assert logged == [
        "the archive can't be used; local copies are kept, and it is retried",
        "the archive is reachable again",
    ]


def test_partition_that_fails_does_not_keep_the_others_from_the_archive(filled: Path) -> None:
    with station(filled) as made:
        own = made.log.archive.partition_archive
        assert own is not None
        made.topics.create("other", 1, CONFIGS)
        other = made.topics.partition("other", 0)
        assert other is not None
        other.log.append(batch_of(*[b"x" * 100] * 10), now_ms=NOW_MS)
        other.log.append(batch_of(*[b"x" * 100] * 10), now_ms=NOW_MS)
        other.log.flush()
        made.store.fail("put", f"{own.prefix}*", times=None)
        for _ in range(3):
            made.clock.advance_ms(10_000_000)
            made.tend()
        assert made.log.archive.entries == ()
        assert len(other.log.archive.entries) == 1


def test_lost_list_is_rebuilt_from_the_archive(archived: Path) -> None:
    (archived / "data" / f"{TOPIC}-0" / LIST_NAME).unlink()
    with station(archived) as made:
        assert made.log.start_offset > 0
        before = made.objects()
        made.tend()
        assert made.log.start_offset == 0
        assert values(read_all(made.log)) == ALL
        assert made.objects() == before
    all_is_there_and_tidy_after_one_more_pass(archived)


# --- kill -9 of a real broker ---


class DyingBroker(BrokerProcess):
    """Its archive may kill it: see `dying_archive`."""

    @property
    def command(self) -> list[str]:
        ordinary = super().command
        module = ordinary.index("headrace")
        return [sys.executable, "-m", "tests.faults.dying_archive", *ordinary[module + 1 :]]


@pytest.mark.parametrize(
    ("dies", "start"),
    [
        ("put *.timeindex before", 0),
        ("put *.manifest before", 0),
        ("put *.manifest after", 0),
        # In the list the first segment is archived, and its local copy is still there.
        ("put *05.log before", 0),
        ("delete *.manifest after", 7),
        ("delete *00.log before", 7),
    ],
)
def test_killed_broker_finds_every_record_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: str, start: int
) -> None:
    root = tmp_path / "archive"
    root.mkdir()
    broker = DyingBroker(
        tmp_path / "data",
        archive_address=f"dying://{root}",
        archive_interval_ms=50,
        housekeeping_interval_ms=50,
        durability="os",
        checkpoint_interval_ms=100,
    )
    monkeypatch.setenv(DIES_VARIABLE, dies)
    local = {**CONFIGS, "remote.storage.enable": "false"}
    configs: dict[str, Any] = {name.replace(".", "_"): value for name, value in local.items()}
    with broker:
        with Wire(broker.bootstrap) as wire:
            create_topic(wire, TOPIC, **configs)
            for number in range(RECORDS):
                produce(wire, TOPIC, batch_of(b"%d" % number))
            # Not before: the broker dies soon after.
            assert alter(wire, TOPIC_CONFIGS, TOPIC, remote_storage_enable="true") == 0
            if start:
                eventually(lambda: is_tidy(root, tmp_path / "data"), "all closed segments are archived")
                delete_before(wire, start)
        assert broker.process.wait(60) == -signal.SIGKILL
        broker.kill()
        monkeypatch.delenv(DIES_VARIABLE)
        broker.start()
        with Wire(broker.bootstrap) as wire:
            assert [record.value for record in read_over_wire(wire, TOPIC, offset=start)] == ALL[start:]
            eventually(lambda: is_tidy(root, tmp_path / "data"), "the archive holds the segments of the list")
            assert [record.value for record in read_over_wire(wire, TOPIC, offset=start)] == ALL[start:]


def delete_before(wire: Wire, offset: int) -> None:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name=TOPIC, partitions=(partition,))
    (answer,) = wire.request(DeleteRecordsRequest(topics=(topic,), timeout_ms=1000)).topics
    assert answer.partitions[0].error_code == 0


def is_tidy(root: Path, data: Path) -> bool:
    """One segment is local, all others are archived and listed, and nothing else is in the archive."""
    folder = data / f"{TOPIC}-0"
    if not (folder / LIST_NAME).exists():
        return False
    listed = {entry.base_offset for entry in decode_list((folder / LIST_NAME).read_bytes())}
    found = {base_offset_of(name) for _, _, names in os.walk(root) for name in names}
    return found == listed and len(list(folder.glob("*.log"))) == 1
