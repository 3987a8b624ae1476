"""The address at which clients reach this broker."""

from __future__ import annotations

from msgspec import Struct

from headrace.broker.client import Client
from headrace.broker.settings import BrokerSettings


class Endpoint(Struct, frozen=True, kw_only=True):
    node_id: int
    host: str
    port: int


def endpoint_for(client: Client, settings: BrokerSettings) -> Endpoint:
    """The address that the client connected to, unless the settings advertise another."""
    if settings.advertised is None:
        return Endpoint(node_id=settings.node_id, host=client.local_host, port=client.local_port)
    host, _, port = settings.advertised.rpartition(":")
    return Endpoint(node_id=settings.node_id, host=host, port=int(port))
