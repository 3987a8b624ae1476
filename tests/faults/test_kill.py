"""kill -9 at random moments under load: what was acknowledged is there, once, in order.

A failing run is repeated with HEADRACE_TEST_KILL_SEED set to the seed that it printed: the moments of the kills are the
same, as far as the machine lets them be.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from headrace.testing.wire import Wire
from tests.broker.requests import create_topic
from tests.faults.acknowledged_load import AcknowledgedLoad, check_accounts
from tests.faults.broker_process import BrokerProcess

PARTITIONS = 3
TOPIC = "ledger"


def seed() -> int:
    return int(os.environ.get("HEADRACE_TEST_KILL_SEED", random.SystemRandom().randrange(2**32)))


def run_rounds(data_dir: Path, durability: str, rounds: int) -> int:
    """Kill, start again, and now and then stop properly, while the same producers continue; acknowledged records."""
    chosen = seed()
    print(f"HEADRACE_TEST_KILL_SEED={chosen}")
    chance = random.Random(chosen)
    # Checkpoints often, small segments: kills also hit those.
    broker = BrokerProcess(data_dir, durability=durability, checkpoint_interval_ms=200)
    with broker:
        with Wire(broker.bootstrap) as wire:
            create_topic(wire, TOPIC, partitions=PARTITIONS, segment_bytes="100000")
        load = AcknowledgedLoad(broker.bootstrap, TOPIC, partitions=PARTITIONS, idempotent=2, plain=1)
        load.start()
        try:
            for number in range(rounds):
                load.wait_for_acknowledgements(100)
                time.sleep(chance.uniform(0, 0.3))
                if number % 5 == 2:
                    assert broker.stop() == 0
                else:
                    broker.kill()
                broker.start()
            load.wait_for_acknowledgements(100)
        finally:
            load.stop()
        # Once more, so that nothing is read that only this process knows.
        broker.kill()
        broker.start()
        acknowledged = check_accounts(load, broker.bootstrap, TOPIC, partitions=PARTITIONS)
        assert "Traceback" not in broker.log, broker.log
    return acknowledged


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_acknowledged_records_survive_kills_once_and_in_order(tmp_path: Path, durability: str) -> None:
    assert run_rounds(tmp_path / "data", durability, rounds=4) >= 1500


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_acknowledged_records_survive_fifty_kills(tmp_path: Path, durability: str) -> None:
    assert run_rounds(tmp_path / "data", durability, rounds=50) >= 15_000
