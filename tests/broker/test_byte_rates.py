"""Clients that are kept to their byte rates: the sums, and the pause over the wire."""

from __future__ import annotations

import select

import pytest

from headrace.broker.byte_rates import ByteRates
from headrace.broker.configs.client_quotas import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    ClientQuotas,
    entity,
)
from headrace.log.filesystem import DiskFileSystem
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.quota_requests import alter
from tests.broker.requests import batch, create_topic, fetch_request, produce_request, records_of
from tests.broker.share_requests import ShareMember, set_group_configs

WINDOW_S = 10


@pytest.fixture
def quotas(tmp_path_factory: pytest.TempPathFactory) -> ClientQuotas:
    folder = tmp_path_factory.mktemp("quotas")
    (folder / "metadata").mkdir()
    return ClientQuotas(DiskFileSystem(), str(folder), entities_max=10)


def limit(quotas: ClientQuotas, rate: float, client_id: str | None = None) -> None:
    quotas.replace({entity([(CLIENT_ID, client_id)]): {PRODUCER_BYTE_RATE: rate}})


def test_client_without_a_quota_never_pauses(quotas: ClientQuotas) -> None:
    rates = ByteRates(quotas, window_s=WINDOW_S)
    assert rates.pause_s(PRODUCER_BYTE_RATE, "c", 10**12, 0) == 0
    limit(quotas, 1, "other")
    assert rates.pause_s(PRODUCER_BYTE_RATE, "c", 10**12, 0) == 0
    assert rates.pause_s(CONSUMER_BYTE_RATE, "other", 10**12, 0) == 0


def test_burst_passes_that_the_rate_allows_in_the_window(quotas: ClientQuotas) -> None:
    limit(quotas, 100)
    rates = ByteRates(quotas, window_s=WINDOW_S)
    assert rates.pause_s(PRODUCER_BYTE_RATE, "c", 1000, 0) == 0
    assert rates.pause_s(PRODUCER_BYTE_RATE, "c", 100, 0) == 1
    assert rates.pause_s(PRODUCER_BYTE_RATE, "c", 200, 1) == 2


def test_client_that_pauses_as_requested_is_at_its_rate(quotas: ClientQuotas) -> None:
    limit(quotas, 100)
    rates = ByteRates(quotas, window_s=WINDOW_S)
    now_s, sent_bytes = 0.0, 0
    for _ in range(1000):
        sent_bytes += 700
        now_s += rates.pause_s(PRODUCER_BYTE_RATE, "c", 700, now_s)
    assert sent_bytes == pytest.approx(100 * (now_s + WINDOW_S))


def test_default_is_a_limit_for_each_client_by_itself(quotas: ClientQuotas) -> None:
    limit(quotas, 100)
    rates = ByteRates(quotas, window_s=WINDOW_S)
    assert rates.pause_s(PRODUCER_BYTE_RATE, "a", 2000, 0) == 10
    assert rates.pause_s(PRODUCER_BYTE_RATE, "b", 1000, 0) == 0


def is_answered(wire: Wire) -> bool:
    return bool(select.select([wire.socket], [], [], 0.2)[0])


@pytest.mark.parametrize(
    ("key", "takes_part"), [(PRODUCER_BYTE_RATE, "produces"), (CONSUMER_BYTE_RATE, "fetches")]
)
def test_client_over_its_rate_gets_its_response_and_is_then_not_read(
    start_broker: StartBroker, connect: Connect, key: str, takes_part: str
) -> None:
    broker = start_broker(client_quota_window_ms=1)
    other = connect(broker, client_id="other")
    create_topic(other, "t")
    other.request(produce_request("t", batch(b"x" * 1000)), version=12)
    slow = connect(broker, client_id="slow")
    assert alter(other, {CLIENT_ID: "slow"}, **{key: 1}) == 0
    if takes_part == "produces":
        response = slow.request(produce_request("t", batch(b"x" * 1000)), version=12)
    else:
        response = slow.request(fetch_request("t"), version=12)
    assert response.throttle_time_ms > 900_000
    slow.send(ApiVersionsRequest())
    assert other.request(ApiVersionsRequest()).error_code == 0
    assert not is_answered(slow)


def test_response_has_no_more_than_the_rate_allows_in_the_window(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(client_quota_window_ms=1000)
    wire = connect(broker, client_id="reader")
    create_topic(wire, "t")
    for _ in range(10):
        wire.request(produce_request("t", batch(b"x" * 1000)), version=12)
    assert alter(wire, {CLIENT_ID: "reader"}, consumer_byte_rate=3500) == 0
    response = wire.request(fetch_request("t"), version=12)
    assert len(records_of(response.responses[0].partitions[0])) == 3
    assert response.throttle_time_ms == 0


def test_member_of_a_share_group_over_its_rate_is_throttled(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(client_quota_window_ms=1)
    other = connect(broker, client_id="other")
    topic_id = create_topic(other, "t")
    other.request(produce_request("t", batch(b"x" * 1000)), version=12)
    set_group_configs(other, "g", share_auto_offset_reset="earliest")
    member = ShareMember(connect(broker, client_id="slow"), "g", topic_id)
    assert alter(other, {CLIENT_ID: "slow"}, consumer_byte_rate=1) == 0
    assert member.fetch_all().throttle_time_ms > 900_000


def test_client_is_read_again_after_its_pause(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(client_quota_window_ms=1)
    wire = connect(broker, client_id="slow")
    create_topic(wire, "t")
    assert alter(wire, {CLIENT_ID: "slow"}, producer_byte_rate=10_000) == 0
    for _ in range(3):
        assert wire.request(produce_request("t", batch(b"x" * 1000)), version=12).throttle_time_ms > 0
    assert wire.request(ApiVersionsRequest()).error_code == 0
