"""The machine and the versions of a measurement, without names and paths, because tables are published."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import confluent_kafka

from headrace.java import java_command

KAFKA_VERSION = "4.3.1"


def machine_facts() -> dict[str, str]:
    return {
        "cores": str(os.cpu_count()),
        "processor": _first_match("/proc/cpuinfo", r"model name\s*:\s*(.+)") or platform.machine(),
        "memory": f"{_memory_gib():.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Java": _java_version(),
        "Apache Kafka": KAFKA_VERSION,
        "Apache Spark": version("pyspark"),
        "RabbitMQ": _rabbitmq_version(),
        "confluent-kafka": f"{confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})",
        "Headrace": _commit(),
    }


def _memory_gib() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def _first_match(path: str, pattern: str) -> str | None:
    try:
        found = re.search(pattern, Path(path).read_text())
    except OSError:
        return None
    return found[1].strip() if found else None


def _java_version() -> str:
    """Java prints its version to stderr."""
    done = subprocess.run([java_command(), "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "([^"]+)"', done)
    return found[1] if found else "unknown"


def _rabbitmq_version() -> str:
    folders = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
    return folders[-1].name.partition("-")[2] if folders else "not installed"


def _commit() -> str:
    here = Path(__file__).parent
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"
