"""Random damage to the files of a stopped or killed broker, and the account of what became of acknowledged records.

A data folder is written once, ended in one way, and copied for every round. A round damages some files of the copy,
starts a broker on it, and looks for every record that was acknowledged. It is there, or the broker or its bytes show
that it is not.
"""

from __future__ import annotations

import logging
import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from headrace.broker.embedded import Broker
from headrace.errors import HeadraceError
from headrace.log import checkpoints
from headrace.log.filesystem import DiskFileSystem
from headrace.log.recovery.repair import plan_repair, repair
from headrace.protocol.error_codes import ErrorCode
from headrace.records.batch import checksum_matches, iterate_headers
from headrace.records.record import decode_records
from headrace.testing.wire import Wire
from tests.broker.group_requests import commit, committed
from tests.broker.observing import eventually
from tests.broker.requests import batch, create_topic, fetch, new_producer_id, produce
from tests.faults.broker_process import BrokerProcess

FILES = DiskFileSystem()
PARTITIONS = {"t": 2, "compacted": 1}
BATCHES = 30
GROUP = "g"
Place = tuple[str, int, int]
"""Topic, partition, offset."""


@dataclass(slots=True, kw_only=True)
class Written:
    """A data folder whose broker has ended, and what was acknowledged."""

    folder: Path
    is_clean: bool
    records: dict[Place, bytes] = field(default_factory=dict)
    covered: checkpoints.OffsetsByPartition = field(default_factory=dict)
    """Recovery points: what lies below was on disk for sure."""

    @property
    def committed_offset(self) -> int:
        return BATCHES // 2


def write(folder: Path, *, is_clean: bool) -> Written:
    """Records in small segments; before a kill, some before and some after a checkpoint."""
    written = Written(folder=folder, is_clean=is_clean)
    broker = BrokerProcess(folder, checkpoint_interval_ms=100)
    with broker:
        with Wire(broker.bootstrap) as wire:
            for topic, partitions in PARTITIONS.items():
                policy = "compact" if topic == "compacted" else "delete"
                create_topic(
                    wire,
                    topic,
                    partitions=partitions,
                    segment_bytes="1000",
                    retention_ms="-1",
                    cleanup_policy=policy,
                )
            _append(wire, written, range(BATCHES))
            assert commit(wire, GROUP, "t", written.committed_offset) == 0
            path = str(folder / checkpoints.RECOVERY_POINT_NAME)
            eventually(
                lambda: checkpoints.read_offsets(FILES, path).get(("t", 1), 0) >= BATCHES, "a checkpoint"
            )
            if not is_clean:
                _append(wire, written, range(BATCHES, BATCHES + 5))
        if is_clean:
            assert broker.stop() == 0
        else:
            broker.kill()
    written.covered = checkpoints.read_offsets(FILES, path)
    return written


def _append(wire: Wire, written: Written, numbers: range) -> None:
    producer_id = new_producer_id(wire)
    for number in numbers:
        for topic, partitions in PARTITIONS.items():
            for index in range(partitions):
                value = b"%s-%d-%d " % (topic.encode(), index, number) * 8
                sent = batch(
                    value,
                    key=b"%d" % number,
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=number - numbers.start,
                )
                answer = produce(wire, topic, sent, partition=index)
                assert answer.error_code == 0
                written.records[topic, index, answer.base_offset] = value


# Faults


def empty(path: Path, chance: random.Random) -> None:
    path.write_bytes(b"")


def delete(path: Path, chance: random.Random) -> None:
    path.unlink()


def scramble(path: Path, chance: random.Random) -> None:
    path.write_bytes(chance.randbytes(path.stat().st_size))


def cut(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content) + 1)])


def prolong(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes() + chance.randbytes(chance.randrange(1, 200)))


def flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)


def delete_folder(path: Path, chance: random.Random) -> None:
    shutil.rmtree(path.parent)


MOVED = b"its batch has another offset"
FAULTS = (empty, delete, scramble, cut, prolong, flip)


class Reports(logging.Handler):
    """What the broker logs as a warning or worse."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def concern(self, folder: str) -> bool:
        """Whether a report is about a partition."""
        return any(f"/{folder}/" in str(getattr(record, "path", "")) + "/" for record in self.records)


class Round:
    def __init__(self, written: Written, folder: Path, seed: int) -> None:
        self.written = written
        self.folder = folder
        self.chance = random.Random(seed)
        self.damaged: list[str] = []
        self.outcome: Counter[str] = Counter()
        self.missing: set[Place] = set()

    def run(self) -> Counter[str]:
        shutil.copytree(self.written.folder, self.folder)
        try:
            self._damage()
            self._start_and_look()
        finally:
            shutil.rmtree(self.folder)
        return self.outcome

    def _damage(self) -> None:
        for _ in range(self.chance.choice((1, 1, 1, 2, 3))):
            paths = sorted(path for path in self.folder.rglob("*") if path.is_file() and path.name != ".lock")
            logs = [path for path in paths if path.suffix == ".log" and path.parent != self.folder]
            path = self.chance.choice(logs if logs and self.chance.random() < 0.5 else paths)
            fault = self.chance.choice(FAULTS)
            if path in logs and self.chance.random() < 0.05:
                fault = delete_folder
            self.damaged.append(f"{fault.__name__} {path.relative_to(self.folder)}")
            fault(path, self.chance)

    def _start_and_look(self) -> None:
        reports = Reports()
        logger = logging.getLogger("headrace")
        logger.addHandler(reports)
        rejected: HeadraceError | None = None
        try:
            with Broker(self.folder) as broker, Wire(broker.bootstrap) as wire:
                self._look(wire, reports)
        except HeadraceError as error:
            rejected = error
        finally:
            logger.removeHandler(reports)
        if rejected is None:
            self._repair_and_look()
            return
        assert rejected.hint, str(rejected)
        self.outcome["starts rejected with a hint"] += 1

    def _look(self, wire: Wire, reports: Reports) -> None:
        for place, value in self.written.records.items():
            self._look_for(wire, place, value, reports)
        self._look_for_commit(wire)
        for topic, partitions in PARTITIONS.items():
            for index in range(partitions):
                self._append(wire, topic, index)

    def _look_for(self, wire: Wire, place: Place, value: bytes, reports: Reports) -> None:
        topic, index, offset = place
        found = read_one(wire, place, value)
        if found == value:
            self.outcome["records there"] += 1
            return
        self.missing.add(place)
        is_covered = offset < self._covered_offset(topic, index)
        if found is None or isinstance(found, ErrorCode):
            if found in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR, None):
                self.outcome["records whose loss the reader notices"] += 1
                return
            if reports.concern(f"{topic}-{index}"):
                self.outcome["records whose loss the broker logs"] += 1
                return
        if found == MOVED:
            assert any(f"flip {topic}-{index}/" in damage for damage in self.damaged), self._silent(
                place, found
            )
            self.outcome["records under another offset, which no checksum covers"] += 1
            return
        assert not is_covered, self._silent(place, found)
        assert any(f" {topic}-{index}/" in damage for damage in self.damaged), self._silent(place, found)
        self.outcome["records lost after the recovery point of a kill"] += 1

    def _covered_offset(self, topic: str, index: int) -> int:
        """After a kill the recovery points are known from their file only; without it every tail may be a torn one."""
        is_lost = any(checkpoints.RECOVERY_POINT_NAME in damage for damage in self.damaged)
        return 0 if is_lost and not self.written.is_clean else self.written.covered.get((topic, index), 0)

    def _silent(self, place: Place, found: object) -> str:
        return f"{place} is silently lost ({found!r}) after {self.damaged}"

    def _look_for_commit(self, wire: Wire) -> None:
        try:
            found = committed(wire, GROUP, "t")
        except AssertionError:
            self.outcome["commits whose loss the client notices"] += 1
            return
        if found == self.written.committed_offset:
            self.outcome["commits there"] += 1
            return
        is_covered = self._covered_offset("__consumer_offsets", 0) > 0
        assert not is_covered, f"the commit is silently lost after {self.damaged}"
        self.outcome["commits lost after the recovery point of a kill"] += 1

    def _append(self, wire: Wire, topic: str, index: int) -> None:
        answer = produce(wire, topic, batch(b"new", key=b"k"), partition=index)
        if answer.error_code:
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR, answer
            self.outcome["partitions read-only"] += 1
            return
        self.outcome["partitions writable"] += 1
        covered = self._covered_offset(topic, index)
        assert answer.base_offset >= covered, (
            f"offset {answer.base_offset} is used again after {self.damaged}"
        )

    def _repair_and_look(self) -> None:
        """After a repair partitions accept writes, and every readable record is kept."""
        for topic, partitions in PARTITIONS.items():
            for index in range(partitions):
                repair(plan_repair(self.folder / f"{topic}-{index}", files=FILES), files=FILES)
        with Broker(self.folder) as broker, Wire(broker.bootstrap) as wire:
            for place, value in self.written.records.items():
                if place not in self.missing:
                    assert read_one(wire, place, value) == value, (
                        f"the repair lost {place} after {self.damaged}"
                    )
            for topic, partitions in PARTITIONS.items():
                for index in range(partitions):
                    answer = produce(wire, topic, batch(b"newer", key=b"k"), partition=index)
                    assert answer.error_code == 0, f"{answer} after {self.damaged} and a repair"
                    assert answer.base_offset >= self._covered_offset(topic, index)


def read_one(wire: Wire, place: Place, expected: bytes) -> bytes | ErrorCode | None:
    """The value of the record at an offset; None for a batch whose checksum does not match."""
    topic, index, offset = place
    answer = fetch(wire, topic, offset, partition=index, partition_max_bytes=1)
    if answer.error_code:
        return ErrorCode(answer.error_code)
    content = bytes(answer.records or b"")
    for position, header in iterate_headers(content):
        one = content[position : position + header.size_bytes]
        if not checksum_matches(one):
            return None
        for record in decode_records(one, bytes_max=1 << 20):
            if record.offset == offset:
                return record.value
            if record.value == expected:
                return MOVED
    return ErrorCode.NONE


def run_rounds(written: Written, folder: Path, *, seed: int, rounds: int) -> Counter[str]:
    outcome: Counter[str] = Counter(rounds=rounds)
    for number in range(rounds):
        one = Round(written, folder, seed + number)
        try:
            outcome.update(one.run())
        except BaseException as error:
            error.add_note(f"HEADRACE_TEST_DAMAGE_SEED={seed + number}: {one.damaged}")
            raise
    return outcome
