"""What all tests share: one broker for the whole run, and how many inputs a fuzzing test tries."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from headrace.testing.requirements import require_java
from tests.compatibility.brokers import BrokerUnderTest, running_broker

# A shell that runs this in the background has it ignore Ctrl-C, and every process that the tests start would too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# `make fuzz` chooses this profile; without it hypothesis keeps its own defaults.
settings.register_profile(
    "fuzz",
    max_examples=int(os.environ.get("HEADRACE_FUZZ_EXAMPLES", "100000")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
# A machine that does other work at the same time is no reason for a property to fail.
settings.register_profile("default", deadline=None)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bootstrap-of",
        choices=("headrace", "kafka"),
        default=os.environ.get("HEADRACE_TEST_BOOTSTRAP_OF", "headrace"),
        help="which broker the tests that talk to one run against",
    )


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
