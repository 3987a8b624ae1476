from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from headrace.gateway import request_rates
from headrace.gateway.request_rates import RequestRates, client_of
from tests.gateway.conftest import Serve, Serving


@given(st.lists(st.floats(0, 2), max_size=100), st.integers(1, 20), st.integers(1, 10))
def test_client_never_gets_more_than_its_rate_and_is_served_when_it_waits_as_long_as_it_should(
    pauses: list[float], per_s: int, burst: int
) -> None:
    rates = RequestRates(per_s=per_s, burst=burst)
    now_s, allowed = 0.0, 0
    for pause in pauses:
        now_s += pause
        wait_s = rates.take("a", now_s)
        allowed += not wait_s
        assert wait_s <= 1 / per_s + 1e-9
    assert allowed <= burst + now_s * per_s + 1e-6
    assert rates.take("a", now_s + 1 / per_s + 1e-6) == 0


def test_one_client_does_not_use_up_the_rate_of_another() -> None:
    rates = RequestRates(per_s=1, burst=1)
    assert [rates.take(each, 0) == 0 for each in ("a", "a", "b", "a")] == [True, False, True, False]


def test_number_of_remembered_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_rates, "ADDRESSES_MAX", 2)
    rates = RequestRates(per_s=1, burst=1)
    assert [rates.take(each, 0) == 0 for each in ("a", "b", "b", "c", "b", "a")] == [
        True,
        True,
        False,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("unix", "unix"),
    ],
)
def test_client_is_an_address_or_a_network_of_ipv6(address: str, client: str) -> None:
    assert client_of({"type": "http", "client": (address, 1)}) == client
    assert client_of({"type": "http", "client": None}) == ""


def test_client_beyond_its_rate_gets_429_and_a_time_to_come_back(serve: Serve, topic: str) -> None:
    gateway = serve(requests_per_s_max=1, requests_burst=3)
    responses = [gateway.get("/topics") for _ in range(20)]
    rejected = [each for each in responses if each.status_code == 429]
    assert len(rejected) >= 10
    assert {int(each.headers["Retry-After"]) for each in rejected} <= {*range(1, 8)}
    assert len({each.headers["Retry-After"] for each in rejected}) > 1, "clients come back spread"
    with pytest.raises(InvalidStatus) as refused:
        open_web_sockets(gateway, topic, 10)
    assert refused.value.response.status_code == 429


def open_web_sockets(gateway: Serving, topic: str, count: int) -> None:
    for _ in range(count):
        connect(f"ws://127.0.0.1:{gateway.port}/topics/{topic}/ws").close()


def test_rate_is_not_limited_by_default(serve: Serve) -> None:
    gateway = serve()
    assert {gateway.get("/topics").status_code for _ in range(150)} == {200}
