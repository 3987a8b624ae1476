"""A Kafka for any project's tests, without Docker: `def test_mine(headrace_broker): … headrace_broker.bootstrap`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headrace.broker.embedded import Broker


@pytest.fixture(scope="session")
def headrace_broker() -> Iterator[Broker]:
    """One broker for the whole test run, on a free port, with data that is gone afterwards."""
    from headrace.broker.embedded import Broker

    # The data is thrown away: no test needs it to survive a power cut.
    with Broker(durability="os") as broker:
        yield broker
