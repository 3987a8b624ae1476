"""Apache Flink as a peer: PyFlink in its own virtual environment, and the connector for Kafka.

PyFlink pins other versions of many dependencies of Headrace, so the two never share an environment. Both are fetched
once, into Headrace's cache.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.java import JarSet, JavaUnavailable, cache_folder, fetch_jars, last_lines

FLINK_VERSION = "2.3.0"
CONNECTOR = JarSet(
    name="flink-kafka-5.0.0",
    dependencies=("org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",),
)
INSTALL_TIMEOUT_S = 1_800
"""For some 500 MB over a slow network. A dead network does not block forever."""

READY = "ready"
"""A file that marks the environment as complete."""

SQL_PROGRAM = Path(__file__).parent / "programs" / "flink_sql.py"


class FlinkUnavailable(HeadraceError):
    """PyFlink or its connector can't be installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flink:
    python: Path
    """The interpreter of the environment with PyFlink."""
    jars: tuple[Path, ...]

    def command(self) -> list[str]:
        return [str(self.python), str(SQL_PROGRAM)]


def flink() -> Flink:
    """The installed Flink, which the first call fetches."""
    try:
        jars = fetch_jars(CONNECTOR)
    except JavaUnavailable as unavailable:
        raise FlinkUnavailable(f"Flink's connector for Kafka is missing: {unavailable}") from unavailable
    return Flink(python=_environment(), jars=tuple(sorted(jars.glob("*.jar"))))


def is_installed() -> bool:
    return (_folder() / READY).exists()


def _folder() -> Path:
    return cache_folder() / f"flink-{FLINK_VERSION}-python{sys.version_info[0]}.{sys.version_info[1]}"


def _environment() -> Path:
    folder = _folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    ready = folder / READY
    python = folder / "bin" / "python"
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            print(f"installing PyFlink {FLINK_VERSION}, once, into {folder} ...", file=sys.stderr, flush=True)
            _run(sys.executable, "-m", "venv", "--clear", str(folder))
            _run(str(python), "-m", "pip", "install", "--quiet", f"apache-flink=={FLINK_VERSION}")
            ready.touch()
    return python


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as expired:
        raise FlinkUnavailable(f"{' '.join(command)} took longer than {INSTALL_TIMEOUT_S} s") from expired
    if done.returncode != 0:
        raise FlinkUnavailable(
            f"PyFlink {FLINK_VERSION} could not be installed:\n{last_lines(done.stdout + done.stderr)}",
            hint="check that it supports this version of Python; --only runs the other subjects without it",
        )
