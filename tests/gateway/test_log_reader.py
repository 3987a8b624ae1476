from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from headrace.gateway import log_reader
from headrace.gateway.errors import BrokerUnavailable, Overloaded
from headrace.gateway.log_reader import LogReader, Page
from headrace.gateway.settings import GatewaySettings
from headrace.kafka.cluster import Cluster
from tests.gateway.conftest import Write

pytestmark = pytest.mark.timeout(120)


def pages(bootstrap: str, *starts: dict[str, dict[int, int]], **limits: Any) -> list[Page]:
    """All at the same time."""

    async def run() -> list[Page]:
        log = LogReader(Cluster(bootstrap, timeout_s=15), GatewaySettings(**limits))
        try:
            return await asyncio.gather(
                *(log.read(each, records_max=1_000, bytes_max=10**7) for each in starts)
            )
        finally:
            log.close()

    return asyncio.run(run())


def test_reads_share_the_clients_of_the_broker(bootstrap: str, topic: str, write: Write) -> None:
    write(topic, *[str(each).encode() for each in range(9)])
    found = pages(bootstrap, *({topic: {each % 3: each // 3}} for each in range(9)), readers_max=2)
    for index, page in enumerate(found):
        assert [each.offset for each in page.records] == [*range(index // 3, 3)]
        assert (page.next, page.at_end) == ({topic: {index % 3: 3}}, True)


def test_read_that_finds_no_client_in_time_is_told_to_come_back(bootstrap: str, topic: str) -> None:
    with pytest.raises(Overloaded, match="older records"):
        pages(bootstrap, *[{topic: {0: 0}}] * 30, readers_max=1, reader_wait_ms_max=10)


def test_broker_that_does_not_respond_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "READ_S_MAX", 0.2)
    monkeypatch.setattr(log_reader, "LOOK_UP_S_MAX", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(BrokerUnavailable):
        pages(f"127.0.0.1:{silent.getsockname()[1]}", {"t": {0: 0}})
