"""What all tests share: one broker and one Spark for each worker, and how many inputs a fuzzing test tries."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from headrace.testing.hdfs import HdfsCluster
from headrace.testing.mariadb import MariadbServer
from headrace.testing.opensearch import OpenSearchServer
from headrace.testing.postgres import PostgresServer
from headrace.testing.redis_server import RedisServer
from headrace.testing.requirements import require_java, require_mariadb, require_postgres, require_redis
from headrace.testing.s3 import S3Server
from tests.compatibility.brokers import BrokerUnderTest, running_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A shell in the background or nohup makes this process ignore signals, and so every process that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The Spark of a test runs for minutes at most. Java's second compiler takes more CPU time than it saves.
os.environ.setdefault("HEADRACE_PIPELINE_DRIVER_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

# `make fuzz` chooses this profile; without it hypothesis keeps its own defaults.
settings.register_profile(
    "fuzz",
    max_examples=int(os.environ.get("HEADRACE_TEST_FUZZ_EXAMPLES", "100000")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
# A machine that does other work at the same time is no reason for a property to fail. `make test` tries the same inputs
# each time, so that a failure comes from a change; `make explore` tries others.
settings.register_profile("default", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("default")


SLOW_WORKER = "Python worker failed to connect back"

TESTS = Path(__file__).parent
LONG_FIRST = ("faults", "examples", "docs", "cli", "compatibility", "testing", "views")
"""Folders with tests of minutes. A worker that begins one of them last would run alone at the end."""

REASON_CHARS = 2_000
"""Of the report of a test that is retried: its end has the error."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bootstrap-of",
        choices=("headrace", "kafka"),
        default=os.environ.get("HEADRACE_TEST_BOOTSTRAP_OF", "headrace"),
        help="the broker that the tests run against",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Which tests come first, and which are retried.

    Other people's servers and clients have timeouts of their own. A test that fails there is retried once, and the
    summary lists it. So is a test on Spark that failed because a
    Python worker did not start in ten seconds, a limit that Spark does not let us set. No other test is retried.
    """
    items.sort(key=lambda item: item.path.relative_to(TESTS).parts[0] not in LONG_FIRST)
    for item in items:
        if "compatibility" in item.path.parts or "apache-kafka" in item.name:
            item.add_marker(pytest.mark.flaky(reruns=1))
        elif "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=[SLOW_WORKER]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why tests were retried: without it, only their names would be left."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.write_line(f"RERUN {report.nodeid}: {str(report.longrepr)[-REASON_CHARS:]}")


@pytest.fixture(scope="session")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerUnderTest]:
    kind = request.config.getoption("--bootstrap-of")
    if kind == "kafka":
        require_java()
    with running_broker(kind, tmp_path_factory.mktemp(f"{kind}-broker")) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap(broker: BrokerUnderTest) -> str:
    return broker.bootstrap


@pytest.fixture(scope="session")
def spark(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of this test run; its broker is `broker`. A test that needs another one starts a process."""
    require_java()
    from headrace.pipeline import session  # imported only by tests that need it
    from headrace.pipeline.spark.session import BOOTSTRAP_KEY, DATA_DIR_KEY, REGISTRY_KEY

    spark = session(
        "tests",
        master="local[2]",
        bootstrap=bootstrap,
        data_dir=tmp_path_factory.mktemp("pipeline-data"),
        conf={"spark.driver.memory": "1g"},
    )
    _session_conf.update(
        {key: spark.conf.get(key) or "" for key in (BOOTSTRAP_KEY, DATA_DIR_KEY, REGISTRY_KEY)}
    )
    yield spark
    spark.stop()


_session_conf: dict[str, str] = {}


@pytest.fixture(autouse=True)
def _session_is_configured_again(request: pytest.FixtureRequest) -> None:
    """A page of the documentation leaves the session with a broker of its own, which has stopped by now."""
    if "spark" in request.fixturenames:
        spark = request.getfixturevalue("spark")
        for key, text in _session_conf.items():
            spark.conf.set(key, text)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The one PostgreSQL of this test run; a test creates its own database, or starts a server that it may stop."""
    require_postgres()
    settings = {"wal_level": "logical", "max_replication_slots": "100", "max_wal_senders": "100"}
    with PostgresServer(settings={"fsync": "off", **settings}) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariadbServer]:
    """The one MariaDB of this test run; a test creates its own database, or starts a server that it may stop."""
    require_mariadb()
    with MariadbServer(settings={"innodb_flush_log_at_trx_commit": "0"}) as server:
        yield server


@pytest.fixture(scope="session")
def opensearch_server() -> Iterator[OpenSearchServer]:
    """The one OpenSearch of this test run; a test has names of indexes of its own."""
    require_java()
    with OpenSearchServer() as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """The one Redis of this test run; a test has key names of its own, or starts a server that it may stop."""
    require_redis()
    with RedisServer(appendonly="no") as server:
        yield server


@pytest.fixture(scope="session")
def hdfs() -> Iterator[HdfsCluster]:
    """The one HDFS of this test run; a test has folders of its own."""
    require_java()
    with HdfsCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """The one S3 server of this test run; a test has folders of its own."""
    require_java()
    with S3Server() as server:
        yield server
