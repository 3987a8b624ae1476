from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace.gateway.errors import TooManyRecords
from headrace.gateway.publisher import MAY_RETRY, Outcome, Publisher
from headrace.gateway.records import NewRecord
from headrace.gateway.settings import GatewaySettings
from tests.gateway.conftest import Serving

pytestmark = pytest.mark.timeout(120)

Work = Callable[[Publisher], Coroutine[Any, Any, Outcome]]


def published(bootstrap: str, work: Work, **limits: Any) -> Outcome:
    publisher = Publisher({"bootstrap.servers": bootstrap, "log_level": 0}, GatewaySettings(**limits))
    try:
        return asyncio.run(work(publisher))
    finally:
        publisher.close()


def test_each_record_has_the_place_where_it_is(bootstrap: str, topic: str, gateway: Serving) -> None:
    records = [NewRecord(value=str(each).encode(), headers=[("h", b"v")]) for each in range(50)]
    outcome = published(bootstrap, lambda publisher: publisher.publish(topic, records))
    found = {(each["partition"], each["offset"]): each["value"] for each in gateway.records(topic)}
    assert [found[each.partition or 0, each.offset or 0] for each in outcome.written] == [*range(50)]


def test_record_that_the_broker_never_acknowledges_fails_as_one_to_send_again(topic: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        records = [NewRecord(value=b"1"), NewRecord(value=b"2")]
        outcome = published(address, lambda publisher: publisher.publish(topic, records), produce_ms_max=300)
    assert [(each.error_code, each.offset) for each in outcome.written] == [(MAY_RETRY, None)] * 2


def test_records_that_wait_for_the_broker_are_bounded(topic: str) -> None:
    records = [NewRecord(value=b"1")] * 3

    async def twice(publisher: Publisher) -> Outcome:
        first = asyncio.create_task(publisher.publish(topic, records))
        await asyncio.sleep(0)
        with pytest.raises(TooManyRecords):
            await publisher.publish(topic, records)
        return await first

    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert len(published(address, twice, produce_ms_max=300, unacknowledged_records_max=5).written) == 3
