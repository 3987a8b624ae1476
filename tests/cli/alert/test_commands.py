"""`headrace alert` as a user runs it: added, run, acknowledged, silenced, shown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace as package
from tests.alerts.conftest import Lab, wait_until
from tests.alerts.servers import MailServer
from tests.cli.conftest import Headrace, started


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    """One process runs the alerts of a cluster, so these have a broker of their own."""
    with package.Broker(data_dir=tmp_path / "broker") as broker:
        yield broker.bootstrap


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


def test_alert_from_the_command_to_the_mail_and_the_history(
    headrace: Headrace, environment: dict[str, str], bootstrap: str, mail: MailServer, tmp_path: Path
) -> None:
    lab = Lab(bootstrap, tmp_path / "data")
    folder = ("--data-dir", str(lab.folder))
    lab.topic()
    quick = ("--group-wait", "0s", "--group-interval", "0s")
    headrace(
        *("alert", "add", "errors", "--topic", "logs", "--when", "level = 'ERROR'", "--per", "service"),
        *("--to-file", "-", *quick, *folder),
        stdin=f"# the team\n{mail.address()}\n",
    )
    lab.write({"level": "ERROR", "service": "a"}, {"level": "ERROR", "service": "b"})
    with started("alert", "run", *folder, environment=environment) as process:
        mail.wait_for(lambda mails: len(mails) >= 1)
        wait_until(lambda: lab.events().count("delivered") == len(mail.mails))
        headrace("alert", "acknowledge", "errors", "--key", "service=a", "--by", "ann", *folder)
        wait_until(lambda: "acknowledged" in lab.events())
        lines = headrace("alert", "status", *folder).out
        assert "alerts: running" in lines
        assert "acknowledged" in lines
        headrace("alert", "silence", "add", "--for", "1h", "--key", "service=b", *folder)
        assert "silenced" in headrace("alert", "status", "errors", *folder).out
        process.send_signal(signal.SIGINT)
        process.wait(60)
        assert process.returncode == 130
    history = headrace("alert", "history", "--alert", "errors").out
    assert "by ann" in history
    assert "to mailto:ann@example.com" in history
    assert "127.0.0.1" not in history


def test_group_without_its_libraries_names_them(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['jinja2'] = None\n")
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "alert", "list"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert 'pip install "headrace[alerts]"' in done.stderr
