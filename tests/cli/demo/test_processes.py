"""The broker and the job of `headrace run` as child processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from headrace.cli.command import connect
from headrace.cli.demo.processes import BrokerProcess, ChildProcess, JobProcess
from headrace.errors import HeadraceError


def test_broker_is_ready_inside_the_context_and_has_ended_after_it(tmp_path: Path) -> None:
    with BrokerProcess(data_dir=tmp_path / "data", listen="127.0.0.1:0") as broker:
        broker.check()
        assert connect(broker.bootstrap).topics() == {}
        assert broker._process is not None
        # Ctrl-C at the terminal does not reach it.
        assert os.getsid(broker._process.pid) != os.getsid(0)

    assert broker.exit_code() == 0
    with pytest.raises(HeadraceError, match="no broker answers"):
        connect(broker.bootstrap)


def test_broker_that_ended_is_an_error_with_its_log(tmp_path: Path) -> None:
    with BrokerProcess(data_dir=tmp_path / "data", listen="127.0.0.1:0") as broker:
        assert broker._process is not None
        os.kill(broker._process.pid, signal.SIGKILL)
        broker._process.wait()
        with pytest.raises(HeadraceError, match=r"the broker ended with code -9; its last log lines:\n  "):
            broker.check()


def test_broker_that_does_not_start_is_an_error_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where a folder should be")

    with pytest.raises(HeadraceError, match=r"(?s)the broker did not start; .*/data.*try --data-dir"):
        BrokerProcess(data_dir=tmp_path / "data", listen="127.0.0.1:0").__enter__()


def test_log_of_a_command_is_its_standard_error() -> None:
    with ChildProcess("topics") as child:
        assert child._process is not None
        child._process.wait()
        assert "No such command" in "\n".join(child.last_lines(5))
        assert len(child.last_lines(1)) == 1


def test_job_has_no_failure_before_it_is_started(tmp_path: Path) -> None:
    job = JobProcess(bootstrap="127.0.0.1:1", data_dir=tmp_path)

    assert (job.failure(), job.milestones) == ("", [])


def test_job_without_spark_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with JobProcess(bootstrap="127.0.0.1:1", data_dir=tmp_path) as job:
        assert job.missing.startswith("the job needs Java: install")
        assert job.exit_code() is None
