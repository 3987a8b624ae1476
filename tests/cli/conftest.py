"""Running the command as a user does: in a process of its own, with its exit code and both outputs."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import ports

COMMAND = [sys.executable, "-m", "headrace"]
TIMEOUT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Headrace = Callable[..., Ran]


@contextmanager
def started(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """The command, running beside the test and never outliving it."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.fixture
def environment(bootstrap: str) -> dict[str, str]:
    return {**os.environ, "HEADRACE_BOOTSTRAP": bootstrap}


@pytest.fixture
def headrace(environment: dict[str, str]) -> Headrace:
    """`headrace("topic", "list")` -> Ran(code, out, err); `code` is what the call must end with."""

    def run(*arguments: str, stdin: str | bytes = b"", code: int = 0) -> Ran:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [*COMMAND, *arguments],
            input=data,
            capture_output=True,
            timeout=TIMEOUT_S,
            env=environment,
            check=False,
        )
        ran = Ran(
            code=done.returncode,
            out=done.stdout.decode(errors="surrogateescape"),
            err=done.stderr.decode(errors="surrogateescape"),
        )
        assert ran.code == code, f"headrace {' '.join(arguments)} ended with {ran.code}\n{ran.out}\n{ran.err}"
        return ran

    return run


@pytest.fixture
def name() -> str:
    """A name that nothing else in this run has, for a topic or a group."""
    return f"cli-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


@pytest.fixture(scope="session")
def producer(bootstrap: str) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "log_level": 0})


@pytest.fixture
def topic(admin: AdminClient, name: str) -> str:
    """A fresh topic with two partitions."""
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(timeout=TIMEOUT_S)
    return name


@pytest.fixture
def numbers(producer: Producer, topic: str) -> str:
    """A topic with 0 to 9 in partition 0."""
    for number in range(10):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(60) == 0
    return topic


@pytest.fixture
def free_port() -> int:
    """A port that was free a moment ago."""
    return ports.free_port()
