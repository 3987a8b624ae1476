"""Files that are damaged or missing at a start: the broker reports them, continues if it can, and reuses no offset."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.broker.embedded import Broker
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode
from headrace.testing.wire import Wire
from tests.broker.requests import (
    batch,
    create_topic,
    delete_topic,
    end_offset,
    fetch,
    new_producer_id,
    produce,
    read_all,
)
from tests.faults.broker_process import BrokerProcess

RECORDS = 20


def write_topic(data: Path, *, partitions: int = 1) -> None:
    """A topic of several segments, and a clean stop."""
    with Broker(data) as broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, "t", partitions=partitions, segment_bytes="1000")
        for number in range(RECORDS):
            for index in range(partitions):
                assert produce(wire, "t", batch(b"%d" % number * 50), partition=index).error_code == 0


def mend(folder: Path) -> None:
    command = [sys.executable, "-m", "headrace", "log", "repair", str(folder), "--yes"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "offsets" in done.stdout
    assert "are lost" in done.stdout


def empty(path: Path) -> None:
    path.write_bytes(b"")


def scramble(path: Path) -> None:
    path.write_bytes(b"\xa5" * path.stat().st_size)


@pytest.mark.parametrize("fault", [empty, scramble, Path.unlink], ids=["empty", "garbage", "deleted"])
def test_last_segment_lost_after_a_clean_stop_is_damage_until_it_is_repaired(
    tmp_path: Path, fault: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    write_topic(data)
    last = max((data / "t-0").glob("*.log"))
    first_lost = int(last.stem)
    fault(last)
    for _ in range(2):
        with Broker(data) as broker, Wire(broker.bootstrap) as wire:
            rejected = produce(wire, "t", batch(b"no"))
            assert rejected.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "headrace log repair" in str(rejected.error_message)
            assert fetch(wire, "t", first_lost).error_code == ErrorCode.CORRUPT_MESSAGE
            assert fetch(wire, "t", first_lost - 1).error_code == 0
            assert end_offset(wire, "t") == RECORDS
        assert "segment_damaged" in caplog.text
        caplog.clear()
    mend(data / "t-0")
    with Broker(data) as broker, Wire(broker.bootstrap) as wire:
        assert produce(wire, "t", batch(b"next")).base_offset == RECORDS
        assert [record.offset for record in read_all(wire, "t")] == [*range(first_lost), RECORDS]
    with Broker(data) as broker, Wire(broker.bootstrap) as wire:
        assert produce(wire, "t", batch(b"next")).base_offset == RECORDS + 1


def test_missing_partition_folder_is_damage(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_topic(data, partitions=2)
    shutil.rmtree(data / "t-1")
    with Broker(data) as broker, Wire(broker.bootstrap) as wire:
        assert produce(wire, "t", batch(b"no"), partition=1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert fetch(wire, "t", 0, partition=1).error_code == ErrorCode.CORRUPT_MESSAGE
        assert produce(wire, "t", batch(b"yes")).base_offset == RECORDS


def rejection(data: Path) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught, Broker(data):
        pass
    assert caught.value.hint
    return caught.value


def test_missing_topic_file_does_not_orphan_its_folders(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_topic(data)
    path = data / "metadata" / "topics" / "t.json"
    saved = path.read_bytes()
    path.unlink()
    for _ in range(2):
        error = rejection(data)
        assert str(data / "t-0") in error.message
        assert "t.json" in error.message
    path.write_bytes(saved)
    with Broker(data) as broker, Wire(broker.bootstrap) as wire:
        assert len(read_all(wire, "t")) == RECORDS


def test_topic_file_written_again_as_in_the_hint_restores_the_records(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_topic(data)
    path = data / "metadata" / "topics" / "t.json"
    path.unlink()
    hint = rejection(data).hint
    path.write_text(hint[hint.index("{") : hint.index("}}") + 2])
    with Broker(data) as broker, Wire(broker.bootstrap) as wire:
        assert len(read_all(wire, "t")) == RECORDS


@pytest.mark.parametrize("change", [{"partitions": 1}, {"partitions": 3}, {"name": "u"}, {"configs": {}}])
def test_changed_topic_file_is_noticed(tmp_path: Path, change: dict[str, object]) -> None:
    data = tmp_path / "data"
    write_topic(data, partitions=2)
    path = data / "metadata" / "topics" / "t.json"
    saved = json.loads(path.read_text())
    path.write_text(json.dumps({**saved, **change}))
    assert "checksum" in rejection(data).message
    # As an older version wrote it: a wrong name, and too few partitions, are noticed by what is there.
    del saved["checksum"]
    path.write_text(json.dumps({**saved, **change}))
    if change in ({"partitions": 1}, {"name": "u"}):
        rejection(data)
    path.write_text(json.dumps(saved))
    with Broker(data) as broker, Wire(broker.bootstrap) as wire:
        assert len(read_all(wire, "t", partition=1)) == RECORDS


def test_topic_that_could_not_be_created_leaves_no_folder_that_stops_the_next_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_topic(data)
    (data / "left-0").mkdir()
    (data / "left-0" / "00000000000000000000.log").touch()
    with Broker(data) as broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, "left")
        assert produce(wire, "left", batch(b"x")).base_offset == 0


def test_recovery_point_of_a_deleted_topic_is_none_of_a_new_one(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", checkpoint_interval_ms=100) as broker:
        with Wire(broker.bootstrap) as wire:
            create_topic(wire, "t")
            for _ in range(5):
                produce(wire, "t", batch(b"x"))
        assert broker.stop() == 0
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    with Wire(broker.bootstrap) as wire:
        delete_topic(wire, "t")
        create_topic(wire, "t")
        produce(wire, "t", batch(b"new"))
    broker.kill()
    with Broker(tmp_path / "data") as again, Wire(again.bootstrap) as wire:
        assert produce(wire, "t", batch(b"second")).base_offset == 1
        delete_topic(wire, "t")
    # Deleted, and the broker killed before the next checkpoint: the start knows that the entry is stale.
    broker.start()
    with Wire(broker.bootstrap) as wire:
        create_topic(wire, "t")
        assert produce(wire, "t", batch(b"third")).base_offset == 0
    broker.kill()


def test_lost_number_of_producers_gives_no_id_twice(tmp_path: Path) -> None:
    """A second producer of the same id would have its records taken for those of the first."""
    data = tmp_path / "data"
    with Broker(data) as broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, "t")
        first = new_producer_id(wire)
        sent = batch(b"first", producer_id=first, producer_epoch=0, base_sequence=0)
        assert produce(wire, "t", sent).base_offset == 0
    (data / "metadata" / "next-producer-id").unlink()
    with Broker(data) as broker, Wire(broker.bootstrap) as wire:
        second = new_producer_id(wire)
        sent = batch(b"second", producer_id=second, producer_epoch=0, base_sequence=0)
        assert produce(wire, "t", sent).base_offset == 1
        assert len(read_all(wire, "t")) == 2
