"""The promises of docs/how-to/microsoft-windows.md, as far as Linux can test them."""

from __future__ import annotations

import subprocess
import sys

import pytest

CLIENTS = [
    "headrace.queue",
    "headrace.queue.dead_letters",
    "headrace.kafka.cluster",
    "headrace.kafka.share_groups",
]
COMMANDS = [
    f"headrace.cli.{name}"
    for name in ("main", "topic", "group", "records.produce", "records.consume", "queue.commands")
]
PLUGIN = ["headrace.testing.pytest_plugin"]

IMPORT_WITHOUT_POSIX = """
import importlib, sys
for name in ("fcntl", "resource", "termios", "pwd", "grp", "uvloop"):
    sys.modules[name] = None  # to import it is an error now
for name in sys.argv[1:]:
    importlib.import_module(name)
"""

BROKER_ON_WINDOWS = """
import sys
sys.platform = "win32"
sys.modules["fcntl"] = sys.modules["resource"] = None
import headrace
from headrace.errors import HeadraceError
try:
    headrace.Broker
except HeadraceError as error:
    print(error.message)
"""


@pytest.mark.parametrize("modules", [CLIENTS, COMMANDS, PLUGIN], ids=["queues", "commands", "pytest plugin"])
def test_clients_import_no_module_of_posix(modules: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_WITHOUT_POSIX, *modules], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_broker_on_windows_is_an_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BROKER_ON_WINDOWS], capture_output=True, text=True, check=False
    )
    assert "does not run on Windows" in done.stdout, done.stderr
