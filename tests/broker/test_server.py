"""A broker as a process: how it starts, what it rejects to start on, and how it stops."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from headrace.broker.server import check_exposure
from headrace.broker.settings import BrokerSettings
from headrace.cli.main import main
from headrace.errors import HeadraceError
from headrace.testing.failing_filesystem import FailingFileSystem
from headrace.testing.ports import free_port
from headrace.testing.wire import Disconnected, Wire
from tests.broker.conftest import StartBroker
from tests.broker.requests import (
    FETCH_BY_NAME,
    PRODUCE_BY_NAME,
    batch,
    create_topic,
    fetch_request,
    only_partition,
    produce,
    produce_request,
    read_all,
)
from tests.faults.broker_process import BrokerProcess
from tests.faults.faulty_broker import broker_on

REJECTION_TIMEOUT_S = 30
CLEAN_MARK = ".kafka_cleanshutdown"


def rejection(broker: BrokerProcess, *options: str) -> str:
    """Start a broker that must not start; its error output."""
    ended = subprocess.run(
        [*broker.command, *options],
        capture_output=True,
        text=True,
        timeout=REJECTION_TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 1, ended
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    assert "hint:" in ended.stderr.lower()
    return ended.stderr


def test_second_broker_on_one_data_folder_fails_and_the_first_continues(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as first, Wire(first.bootstrap) as wire:
        create_topic(wire, "t")
        logged = rejection(BrokerProcess(tmp_path / "data"))
        assert f"another broker is using the data folder {tmp_path / 'data'}" in logged
        assert produce(wire, "t", batch(b"x")).error_code == 0


def test_folder_of_a_killed_broker_is_free_immediately(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    broker.kill()
    with BrokerProcess(tmp_path / "data"):
        pass


def test_port_in_use_is_a_clear_error_and_leaves_the_folder_free(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        logged = rejection(BrokerProcess(tmp_path / "data", port=port))
        assert f"can't listen on 127.0.0.1:{port}" in logged
    assert (tmp_path / "data" / CLEAN_MARK).exists(), "nothing was changed"
    with BrokerProcess(tmp_path / "data"):
        pass


def test_metrics_port_in_use_is_a_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        logged = rejection(BrokerProcess(tmp_path / "data"), "--metrics-port", str(port))
        assert f"can't listen on 127.0.0.1:{port}" in logged
        assert "--metrics-port" in logged


def test_data_folder_that_cannot_be_created_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert "can't be created" in rejection(BrokerProcess(tmp_path / "file" / "data"))


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("no_such_setting=1", "no_such_setting"),
        ("connections_max=many", "is not a whole number"),
        ("connections_max=0", "too small"),
        ("durability=maybe", "fsync"),
        ("auto_create_topics=perhaps", "true or false"),
    ],
)
def test_invalid_setting_is_named_with_the_allowed_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], setting: str, expected: str
) -> None:
    assert expected in settings_rejection(monkeypatch, capsys, "--set", setting)


def test_damaged_settings_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "headrace.toml").write_text("[broker\n")
    monkeypatch.chdir(tmp_path)
    assert "headrace.toml" in settings_rejection(monkeypatch, capsys)


def settings_rejection(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *options: str
) -> str:
    """The error of `headrace broker` for its settings; it stops there, so that it can run in this process."""
    monkeypatch.setattr(sys, "argv", ["headrace", "broker", *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    logged = capsys.readouterr().err
    assert "hint:" in logged
    return logged


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_it_cleanly_and_keeps_the_data(tmp_path: Path, number: signal.Signals) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    with Wire(broker.bootstrap) as wire:
        create_topic(wire, "t")
        produce(wire, "t", batch(b"a"))
        os.kill(broker.process.pid, number)
        assert broker.wait() == 0
        assert wire.is_closed_by_broker()
    assert (tmp_path / "data" / CLEAN_MARK).exists()
    assert "broker stopped" in broker.log
    assert "ERROR" not in broker.log
    with broker, Wire(broker.bootstrap) as wire:
        assert not (tmp_path / "data" / CLEAN_MARK).exists(), "the mark is good for one start"
        assert [record.value for record in read_all(wire, "t")] == [b"a"]


def test_second_signal_while_stopping_changes_nothing(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    for _ in range(2):
        broker.process.send_signal(signal.SIGTERM)
    assert broker.wait() == 0
    assert (tmp_path / "data" / CLEAN_MARK).exists()


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_stop_under_load_is_clean_and_loses_nothing_that_was_acknowledged(
    tmp_path: Path, durability: str
) -> None:
    broker = BrokerProcess(tmp_path / "data", durability=durability)
    broker.start()
    with Wire(broker.bootstrap) as wire:
        create_topic(wire, "t", partitions=4)
    acknowledged = [0, 0, 0, 0]
    running = threading.Barrier(5)

    def write(index: int) -> None:
        with Wire(broker.bootstrap) as wire:
            running.wait()
            try:
                while True:
                    for _ in range(20):
                        request = produce_request("t", batch(b"x"), partition=index)
                        wire.send(request, version=PRODUCE_BY_NAME)
                    for _ in range(20):
                        response = only_partition(wire.receive())
                        assert (response.error_code, response.base_offset) == (0, acknowledged[index])
                        acknowledged[index] += 1
            except Disconnected:
                pass

    threads = [threading.Thread(target=write, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    running.wait()
    while min(acknowledged) < 100:
        assert all(thread.is_alive() for thread in threads)
    assert broker.stop() == 0
    for thread in threads:
        thread.join()
    assert (tmp_path / "data" / CLEAN_MARK).exists()
    assert "Traceback" not in broker.log, broker.log
    with broker, Wire(broker.bootstrap) as wire:
        kept = [len(read_all(wire, "t", partition=index)) for index in range(4)]
        assert all(found >= expected for found, expected in zip(kept, acknowledged, strict=True)), (
            kept,
            acknowledged,
        )


def test_stop_does_not_wait_for_long_polls(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    with Wire(broker.bootstrap) as wire:
        create_topic(wire, "t")
        wire.send(fetch_request("t", max_wait_ms=2**31 - 1), version=FETCH_BY_NAME)
        assert not wire.has_response(within_s=0.1)
        assert broker.stop() == 0


def test_start_after_a_clean_stop_reads_nothing_of_the_log(tmp_path: Path) -> None:
    with broker_on(FailingFileSystem(), tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t", segment_bytes="100000")
        for _ in range(20):
            produce(wire, "t", batch(b"x" * 50_000))
    files = FailingFileSystem()
    with broker_on(files, tmp_path / "data") as server:
        assert files.bytes_read("*/t-0/*.log") < 1_000, "only the header of the last batch may be read"
        with Wire(server.bootstrap) as wire:
            assert len(read_all(wire, "t")) == 20


def test_metrics_and_health_are_served_at_the_metrics_port(tmp_path: Path) -> None:
    port = free_port()
    with BrokerProcess(tmp_path / "data", metrics_port=port) as broker:
        with Wire(broker.bootstrap) as wire:
            create_topic(wire, "t")
            produce(wire, "t", batch(b"x"))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as page:
            assert (page.status, page.read()) == (200, b"healthy\n")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
            text = page.read().decode()
        assert 'headrace_log_end_offset{partition="0",topic="t"} 1.0' in text
        assert 'headrace_requests_total{api="produce"} 1.0' in text
        assert broker.stop() == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)


@pytest.mark.parametrize("garbage", [b"", b"\xff\xfe\x00", b"../../etc\n", b"x" * 1000])
def test_damaged_cluster_id_is_a_clear_error_and_leaves_the_folder_free(
    tmp_path: Path, garbage: bytes
) -> None:
    with broker_on(FailingFileSystem(), tmp_path / "data"):
        pass
    path = tmp_path / "data" / "metadata" / "cluster-id"
    path.write_bytes(garbage)
    for _ in range(2):
        with (
            pytest.raises(HeadraceError, match="cluster-id is damaged"),
            broker_on(FailingFileSystem(), tmp_path / "data"),
        ):
            pass
    path.unlink()
    with broker_on(FailingFileSystem(), tmp_path / "data"):
        pass


def test_disk_that_cannot_be_read_is_an_error_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "data" / "metadata" / "cluster-id").mkdir(parents=True)
    logged = rejection(BrokerProcess(tmp_path / "data"))
    assert "the start failed" in logged
    assert "Traceback" not in logged


@pytest.mark.parametrize("settings", [{}, {"metrics_port": 0}])
def test_exposed_address_is_rejected_before_anything_is_written(
    tmp_path: Path, start_broker: StartBroker, settings: dict[str, int]
) -> None:
    with pytest.raises(HeadraceError, match="without authentication") as rejected:
        start_broker(tmp_path / "data", host="0.0.0.0", **settings)
    assert "--insecure" in rejected.value.hint
    assert not (tmp_path / "data").exists()


def test_insecure_address_is_allowed_with_a_critical_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        check_exposure(BrokerSettings(host="0.0.0.0", insecure=True))
    (warning,) = caplog.records
    assert warning.getMessage().startswith("INSECURE: ")


def test_loopback_broker_logs_no_warning(start_broker: StartBroker, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        start_broker(insecure=True)
    assert caplog.records == []
