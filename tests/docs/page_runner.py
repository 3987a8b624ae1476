"""Runs a documentation page as a reader would: its commands in a shell, its Python in one interpreter, in order.

A page that connects to a broker before it has started one gets one. The ports in the text are replaced by free ones.
Each page runs in a folder of its own.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest import mock

from headrace.testing.ports import free_ports
from tests.docs.snippets import Block, Command, Directive, matches, read_blocks, read_commands

# The command of a job starts Spark, which takes ten seconds, and minutes on a busy machine.
COMMAND_TIMEOUT_S = 600
# Housekeeping of a page's broker runs within seconds; after this time it has failed.
EVENTUALLY_TIMEOUT_S = 90
# Of the broker, its metrics, the gateway, receivers of webhooks and feeds on the pages, which may be in use here.
PORTS_IN_TEXT = ("9092", "9404", "8082", "8099", "5007", "5008", "5555", "5556", "5560")
# Python that uses the default address of a broker.
USES_DEFAULT_BROKER = re.compile(r"\b(?:session|read_topic|(?:Async)?Queue)\(")
STARTS_BROKER = re.compile(r"headrace broker\b(?!.*--check)", re.DOTALL)


class PageRunner:
    def __init__(self, page: str, *, name: str, folder: Path) -> None:
        ports = free_ports(len(PORTS_IN_TEXT))
        self._ports = {port: str(port_now) for port, port_now in zip(PORTS_IN_TEXT, ports, strict=True)}
        self._page = self.with_free_ports(page)
        self._name = name
        self._folder = folder
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._broker: subprocess.Popen[bytes] | None = None
        self._was_broker_started = False
        self._open_ended: list[OpenEnded] = []
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HEADRACE_BOOTSTRAP": f"127.0.0.1:{self._ports['9092']}",
            "HEADRACE_PIPELINE_BOOTSTRAP": f"127.0.0.1:{self._ports['9092']}",
            "HEADRACE_BROKER_PORT": self._ports["9092"],
            "HEADRACE_GATEWAY_PORT": self._ports["8082"],
            "PYTEST_ADDOPTS": "",
            "TZ": "UTC",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._open_ended:
            each.stop()
        self._names.clear()  # clients in it would log that their broker is unavailable
        self._stop_broker()

    def run(self) -> int:
        """Run all blocks; the number of commands and blocks of Python that ran."""
        blocks = [each for each in read_blocks(self._page) if each.directive is not Directive.NOT_HERE]
        count = 0
        for block in blocks:
            beside = list(self._open_ended)
            count += self._run_block(block)
            # Its output comes from the next block; after that a reader presses Ctrl-C.
            for each in beside:
                each.expect_all()
                each.stop()
                self._open_ended.remove(each)
        assert not self._open_ended, f"{self._name}: a command that goes on needs a block behind it"
        return count

    def _run_block(self, block: Block) -> int:
        if block.directive is Directive.STOP_BROKER:
            self._stop_broker()
            return 0
        if block.title is not None:
            (self._folder / block.title).write_text(block.text + "\n")
            return 0
        if not self._was_broker_started and self._needs_broker(block):
            self._start_broker("headrace broker --data-dir ./data", line=block.line)
        if block.language == "python":
            self._run_python(block)
            return 1
        if block.language == "console":
            commands = list(read_commands(block))
            for command in commands:
                self._run_command(command, block.directive)
            return len(commands)
        return 0

    def _needs_broker(self, block: Block) -> bool:
        if block.language == "python":
            address = self._environment["HEADRACE_BOOTSTRAP"]
            return address in block.text or USES_DEFAULT_BROKER.search(block.text) is not None
        return not STARTS_BROKER.match(block.text.removeprefix("$ ")) and "headrace " in block.text

    def _run_python(self, block: Block) -> None:
        # Blank lines in front, so that a traceback names the line of the page.
        code = compile("\n" * block.line + block.text, self._name, "exec")
        printed = io.StringIO()
        # A Spark session reads the address of the page's broker from the environment, as a command does.
        address = self._environment["HEADRACE_BOOTSTRAP"]
        with (
            contextlib.chdir(self._folder),
            contextlib.redirect_stdout(printed),
            mock.patch.dict(os.environ, HEADRACE_BOOTSTRAP=address, HEADRACE_PIPELINE_BOOTSTRAP=address),
        ):
            exec(code, self._names)
        self._compare(block.output or "", printed.getvalue(), line=block.line)

    def _run_command(self, command: Command, directive: Directive | None) -> None:
        if STARTS_BROKER.match(command.text) and directive is not Directive.FAILS:
            self._start_broker(command.text, line=command.line)
            return
        if command.is_open_ended:
            self._open_ended.append(OpenEnded(self, command))
            return
        deadline_s = time.monotonic() + EVENTUALLY_TIMEOUT_S
        while True:
            done = self.shell(command.text)
            failed = done.returncode != 0
            assert failed == (directive is Directive.FAILS), (
                f"{self._name}:{command.line}: `{command.text}` ended with {done.returncode}\n{done.stdout.decode()}"
            )
            printed = done.stdout.decode()
            if directive is not Directive.EVENTUALLY or matches(command.output, printed):
                break
            assert time.monotonic() < deadline_s, self._difference(command.output, printed, command.line)
            time.sleep(0.2)
        self._compare(command.output, printed, line=command.line)

    def shell(self, command: str) -> subprocess.CompletedProcess[bytes]:
        process = subprocess.Popen(
            ["sh", "-c", command],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate(timeout=COMMAND_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # The shell and everything that it has started: a job would continue without it.
            os.killpg(process.pid, signal.SIGKILL)
            printed, _ = process.communicate()
            raise AssertionError(f"{self._name}: `{command}` took too long\n{printed.decode()}") from None
        return subprocess.CompletedProcess(command, process.returncode, printed)

    def start(self, command: str, output: Path) -> subprocess.Popen[bytes]:
        """A command that runs in the background; `exec` makes the signal reach it rather than the shell."""
        with output.open("wb") as stream:
            return subprocess.Popen(
                ["sh", "-c", f"exec {command}"],
                cwd=self._folder,
                env={**self._environment, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )

    def _start_broker(self, command: str, *, line: int) -> None:
        self._stop_broker()
        self._was_broker_started = True
        output = self._folder / "broker-output"
        self._broker = self.start(command, output)
        wait_for(output, "ready at", self._broker, f"{self._name}:{line}: `{command}`")

    def _stop_broker(self) -> None:
        if self._broker is None:
            return
        self._broker.send_signal(signal.SIGINT)
        code = self._broker.wait(timeout=COMMAND_TIMEOUT_S)
        self._broker = None
        assert code == 0, f"{self._name}: the broker ended with {code}"

    def with_free_ports(self, text: str) -> str:
        for port, port_here in self._ports.items():
            text = re.sub(rf"\b{port}\b", port_here, text)
        return text

    def _compare(self, expected: str, printed: str, *, line: int) -> None:
        assert matches(expected, printed), self._difference(expected, printed, line)

    def _difference(self, expected: str, printed: str, line: int) -> str:
        return f"{self._name}:{line} shows\n{expected}\nand here it is\n{printed}"

    def place(self, line: int) -> str:
        return f"{self._name}:{line}"

    @property
    def scratch(self) -> Path:
        return self._folder


class OpenEnded:
    """A command like `consume --follow`, started in its order and stopped at the end of the page."""

    def __init__(self, runner: PageRunner, command: Command) -> None:
        self._place = f"{runner.place(command.line)}: `{command.text}`"
        self._expected = command.output.rstrip().removesuffix("^C").rstrip("\n").split("\n")
        self._output = runner.scratch / f"output-of-line-{command.line}"
        self._process = runner.start(command.text, self._output)
        # The reader sees the first line before continuing in another terminal.
        wait_for(self._output, self._expected[0].split("…")[-1], self._process, self._place)

    def expect_all(self) -> None:
        deadline_s = time.monotonic() + EVENTUALLY_TIMEOUT_S
        expected = "\n".join(self._expected)
        while not matches(expected, self._output.read_text()):
            assert time.monotonic() < deadline_s, (
                f"{self._place} shows\n{expected}\nand here it is\n{self._output.read_text()}"
            )
            time.sleep(0.05)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(timeout=COMMAND_TIMEOUT_S)


def wait_for(output: Path, text: str, process: subprocess.Popen[bytes], what: str) -> None:
    deadline_s = time.monotonic() + EVENTUALLY_TIMEOUT_S
    while text not in output.read_text():
        assert process.poll() is None, f"{what} ended with {process.returncode}\n{output.read_text()}"
        assert time.monotonic() < deadline_s, f"{what}: no {text!r} in\n{output.read_text()}"
        time.sleep(0.02)
