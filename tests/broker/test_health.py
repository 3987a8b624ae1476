"""Health over HTTP and over the protocol: unhealthy with the reason, and healthy again when the reason is removed."""

from __future__ import annotations

import errno
import json
import socket
import urllib.error
import urllib.request
from pathlib import Path

from headrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.testing.failing_filesystem import FailingFileSystem
from headrace.testing.ports import free_port
from headrace.testing.wire import Wire
from tests.broker.group_requests import commit
from tests.broker.observing import eventually
from tests.broker.requests import batch, create_topic, produce
from tests.faults.broker_process import BrokerProcess
from tests.faults.faulty_broker import GatedFileSystem, broker_on

BROKER_RESOURCE = 4


def http_health(port: int) -> tuple[int, list[str]]:
    """Status and lines of /health."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as page:
            return page.status, page.read().decode().splitlines()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode().splitlines()


def wire_health(wire: Wire) -> list[str]:
    """The problems as `headrace broker --check` gets them."""
    broker = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name="1", configuration_keys=("headrace.health",)
    )
    (result,) = wire.request(DescribeConfigsRequest(resources=(broker,))).results
    (config,) = result.configs
    problems: list[str] = json.loads(config.value)
    return problems


def test_full_disk_is_unhealthy_until_there_is_room(tmp_path: Path) -> None:
    files = FailingFileSystem()
    with broker_on(files, tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        assert http_health(server.metrics_port) == (200, ["healthy"])
        assert wire_health(wire) == []
        full = files.fail("write_whole", error_number=errno.ENOSPC, times=None)
        problem = f"the data folder {tmp_path / 'data'} can't be written: No space left on device"
        assert http_health(server.metrics_port) == (503, ["unhealthy", problem])
        assert wire_health(wire) == [problem]
        full.times = 0
        assert http_health(server.metrics_port) == (200, ["healthy"])
    assert not [*(tmp_path / "data").glob(".health*")]


def test_disk_with_little_room_is_unhealthy(tmp_path: Path) -> None:
    with broker_on(FailingFileSystem(), tmp_path / "data", health_free_bytes_min=2**62) as server:
        status, lines = http_health(server.metrics_port)
        assert status == 503
        assert "bytes left, less than health_free_bytes_min" in lines[1]


def test_disk_that_hangs_is_unhealthy(tmp_path: Path) -> None:
    class HangingProbe(GatedFileSystem):
        def write_whole(self, path: str, content: bytes, *, durable: bool = True) -> None:
            if path.endswith(".health"):
                self.gate.wait(30)
            super().write_whole(path, content, durable=durable)

    files = HangingProbe()
    with broker_on(files, tmp_path / "data", health_disk_ms_max=50) as server:
        files.gate.clear()
        status, lines = http_health(server.metrics_port)
        files.gate.set()
        assert status == 503
        assert "did not store a small file within 50 ms" in lines[1]


def test_read_only_partitions_are_named_and_counted(tmp_path: Path) -> None:
    files = GatedFileSystem()
    with broker_on(files, tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t", partitions=7)
        files.failing = 7
        for partition in range(7):
            assert produce(wire, "t", batch(b"x"), partition=partition).error_code != 0
        status, lines = http_health(server.metrics_port)
        assert status == 503
        assert lines[1].startswith("partition t-0 is read-only: ")
        assert lines[-1] == "2 more partitions are read-only"
        assert len(lines) == 7


def test_groups_that_cannot_be_read_are_unhealthy(tmp_path: Path) -> None:
    with broker_on(FailingFileSystem(), tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t")
        assert commit(wire, "g", "t", 1) == 0
    files = FailingFileSystem()
    # The start looks at the last batch's header, and then reads it all.
    files.fail("read", "*/__consumer_offsets-0/*.log", skip=1, times=None)
    with broker_on(files, tmp_path / "data") as server:
        eventually(lambda: http_health(server.metrics_port)[0] == 503, "groups were found to be unreadable")
        _, lines = http_health(server.metrics_port)
        assert [line.partition(":")[0] for line in lines] == ["unhealthy", "groups are not served"]


def test_work_in_the_background_that_fails_is_unhealthy_for_a_while(tmp_path: Path) -> None:
    files = FailingFileSystem()
    quick = {"checkpoint_interval_ms": 100, "health_failure_ms": 1_000}
    with broker_on(files, tmp_path / "data", **quick) as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t")
        broken = files.fail("write_whole", "*/recovery-point-offset-checkpoint", times=None)
        eventually(lambda: http_health(server.metrics_port)[0] == 503, "a checkpoint failed")
        _, lines = http_health(server.metrics_port)
        assert "housekeeping failed: " in lines[1]
        assert "Input/output error" in lines[1]
        broken.times = 0
        eventually(lambda: http_health(server.metrics_port)[0] == 200, "a while without failures")


def test_half_sent_request_blocks_neither_pages_nor_the_stop(tmp_path: Path) -> None:
    port = free_port()
    with (
        BrokerProcess(tmp_path / "data", metrics_port=port) as broker,
        socket.create_connection(("127.0.0.1", port)) as half,
    ):
        half.sendall(b"GET /metrics HTT")
        assert http_health(port) == (200, ["healthy"])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
            assert b"headrace_connections" in page.read()
        assert broker.stop() == 0
