"""The samples of `headrace top` on a real broker."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.testing import ports
from tests.cli.conftest import COMMAND, Headrace, next_line, started


def test_sample_has_topics_with_rates_and_groups_with_lag(
    environment: dict[str, str], headrace: Headrace, numbers: str, name: str, producer: Producer
) -> None:
    headrace("group", "seek", name, "--topic", f"{numbers}:0", "--to-offset", "4")
    with started("top", "--format", "json", "--interval", "0.5", environment=environment) as process:
        first = json.loads(next_line(process))
        producer.produce(numbers, "more", partition=1)
        assert producer.flush(60) == 0
        samples = [json.loads(next_line(process)) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)

    assert (process.returncode, err) == (0, "")
    topic = next(each for each in first["topics"] if each["topic"] == numbers)
    assert (topic["partitions"], topic["offsets"], topic["records_per_s"]) == (2, 10, None)
    assert topic["size_bytes"] > 0
    assert any(
        each["topic"] == numbers and each["offsets"] == 11 and each["records_per_s"] > 0
        for sample in samples
        for each in sample["topics"]
    )
    group = next(each for each in samples[-1]["groups"] if each["group"] == name)
    # Partition 1 has a record, and no commit: it is still to be read.
    assert (group["kind"], group["state"], group["lag"]) == ("consumer", "empty", 7)


@pytest.mark.slow
def test_broker_that_stops_is_reported_until_it_runs_again(tmp_path: Path) -> None:
    listen = f"127.0.0.1:{ports.free_port()}"
    broker = [*COMMAND, "broker", "--data-dir", str(tmp_path / "data"), "--listen", listen]

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(broker, stdout=subprocess.PIPE, text=True)
        next_line(process)
        return process

    running = start()
    try:
        with started("top", "--format", "json", "--interval", "0.1", "--bootstrap", listen) as process:
            assert json.loads(next_line(process))["problem"] is None
            running.kill()
            running.communicate()
            while json.loads(next_line(process))["problem"] is None:
                pass
            running = start()
            while json.loads(next_line(process))["problem"] is not None:
                pass
    finally:
        running.kill()
        running.communicate()
