"""kill -9 while retention and compaction replace segments: at the next start nothing of it looks like damage."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.testing.wire import Disconnected, Wire
from tests.broker.observing import eventually
from tests.broker.requests import batch, create_topic, end_offset, fetch, produce, read_all
from tests.faults.broker_process import BrokerProcess

TOPICS = {
    "ring": {"retention_bytes": "3000", "file_delete_delay_ms": "1"},
    "keys": {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0", "file_delete_delay_ms": "1"},
}
SEED = 20261116


def write_until_it_ends(bootstrap: str, acknowledged: dict[str, int]) -> None:
    with suppress(Disconnected, OSError), Wire(bootstrap) as wire:
        number = 0
        while True:
            for topic in TOPICS:
                answer = produce(wire, topic, batch(b"x" * 200, key=b"%d" % (number % 7)))
                assert answer.error_code == 0, answer
                acknowledged[topic] = answer.base_offset
            number += 1


def run_rounds(data_dir: Path, rounds: int) -> None:
    chance = random.Random(SEED)
    acknowledged: dict[str, int] = {}
    broker = BrokerProcess(
        data_dir, checkpoint_interval_ms=100, housekeeping_interval_ms=20, compaction_interval_ms=20
    )
    with broker:
        with Wire(broker.bootstrap) as wire:
            for topic, configs in TOPICS.items():
                create_topic(wire, topic, segment_bytes="1000", **configs)  # type: ignore[arg-type]
        for number in range(rounds):
            writer = threading.Thread(target=write_until_it_ends, args=(broker.bootstrap, acknowledged))
            writer.start()
            wanted = acknowledged.get("keys", 0) + 20
            eventually(lambda wanted=wanted: acknowledged.get("keys", 0) >= wanted, "writes")  # type: ignore[misc]
            time.sleep(chance.uniform(0, 0.2))
            if number % 5 == 3:
                assert broker.stop() == 0
            else:
                broker.kill()
            writer.join()
            broker.start()
            with Wire(broker.bootstrap) as wire:
                for topic, offset in acknowledged.items():
                    assert end_offset(wire, topic) > offset
                    assert produce(wire, topic, batch(b"again", key=b"k")).error_code == 0, broker.log
        with Wire(broker.bootstrap) as wire:
            assert fetch(wire, "ring").error_code == ErrorCode.OFFSET_OUT_OF_RANGE, "retention was at work"
            assert len(read_all(wire, "keys")) < end_offset(wire, "keys"), "compaction was at work"
        assert "segment_damaged" not in broker.log


def test_kills_during_retention_and_compaction_are_no_damage(tmp_path: Path) -> None:
    run_rounds(tmp_path / "data", rounds=3)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_kills_during_retention_and_compaction_are_no_damage(tmp_path: Path) -> None:
    run_rounds(tmp_path / "data", rounds=60)
