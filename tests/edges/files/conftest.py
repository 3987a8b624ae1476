"""A follower in front of a broker, whose clock the test sets."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headrace.edges.files.followed_files import FollowedFiles
from headrace.edges.files.follower import FileFollower
from headrace.edges.files.parsing import Parse
from headrace.edges.files.positions import Positions
from headrace.edges.files.settings import FilesSettings
from headrace.edges.overload import Intake
from headrace.edges.settings import EdgeSettings
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from headrace.testing.manual_clock import ManualClock
from tests.edges.conftest import values_in, wait_until

UNPRIVILEGED_ID = 65_534


@contextlib.contextmanager
def without_privileges() -> Iterator[None]:
    """Root may read everything: as root, the context runs as another user."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(UNPRIVILEGED_ID)
    try:
        yield
    finally:
        os.seteuid(0)


def headers_of(message: Any) -> dict[str, bytes]:
    return dict(message.headers() or [])


@dataclass
class Logs:
    """A folder of logs, and runs of an edge that follows them to a topic."""

    folder: Path
    positions: Path
    bootstrap: str
    topic: str
    clock: ManualClock = field(default_factory=ManualClock)
    problems: list[str] = field(default_factory=list)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        with path.open("a") as file:
            file.write(text)
        return path

    @contextlib.contextmanager
    def run(self, pattern: str = "*.log", parse: Parse | None = None, **options: Any) -> Iterator[Running]:
        settings = FilesSettings(
            name="edge",
            patterns=(f"{self.folder}/{pattern}",),
            topic=self.topic,
            **{"poll_s": 0.0, "rotate_wait_s": 0.0, **options},
        )
        with Intake({"bootstrap.servers": self.bootstrap}, EdgeSettings(stop_s=60), name="edge") as intake:
            follower = FileFollower(
                settings,
                intake,
                Positions(self.positions),
                parse=parse,
                clock=self.clock,
                on_problem=self.problems.append,
            )
            try:
                yield Running(self, intake, follower)
                intake.close()
            finally:
                follower.close()

    @property
    def values(self) -> list[str]:
        return [value.decode() for value in values_in(self.bootstrap, self.topic)]

    def headers(self) -> list[dict[str, bytes]]:
        messages = read_committed(Cluster(self.bootstrap, timeout_s=30), self.topic)
        return [headers_of(message) for message in messages]


@dataclass
class Running:
    logs: Logs
    intake: Intake
    follower: FileFollower

    @property
    def files(self) -> FollowedFiles:
        return self.follower.files

    def read(self) -> None:
        """Everything that is there, until it is delivered."""
        self.step()
        while self.follower.step():
            pass
        wait_until(lambda: self.intake.count().pending == 0)

    def step(self) -> None:
        self.logs.clock.advance_ms(10)
        self.follower.step()

    def pass_s(self, seconds: float) -> None:
        self.logs.clock.advance_ms(int(seconds * 1000))
        self.read()


@pytest.fixture
def logs(tmp_path: Path, bootstrap: str) -> Logs:
    topic = f"files-{uuid.uuid4().hex[:12]}"
    for name in (topic, f"dlq.{topic}"):
        Cluster(bootstrap, timeout_s=30).create_topic(name, partitions=1)
    folder = tmp_path / "logs"
    folder.mkdir()
    return Logs(folder, tmp_path / "positions", bootstrap, topic)
