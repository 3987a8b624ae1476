"""The address that clients get in metadata."""

from __future__ import annotations

from headrace.broker.client import Client
from headrace.broker.endpoint import Endpoint, endpoint_for
from headrace.broker.settings import BrokerSettings

CLIENT = Client(host="10.0.0.9", port=50_000, local_host="10.0.0.1", local_port=9092)


def test_client_gets_the_address_that_it_connected_to() -> None:
    endpoint = endpoint_for(CLIENT, BrokerSettings(node_id=7))
    assert endpoint == Endpoint(node_id=7, host="10.0.0.1", port=9092)


def test_client_gets_the_address_that_the_settings_advertise() -> None:
    for advertised, host in (("kafka.example:9999", "kafka.example"), ("[::1]:9999", "[::1]")):
        endpoint = endpoint_for(CLIENT, BrokerSettings(advertised=advertised))
        assert endpoint == Endpoint(node_id=1, host=host, port=9999)
