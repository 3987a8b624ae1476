"""A client that disconnects."""

from __future__ import annotations

from headrace.broker.client import Client


class Fetch:
    def __init__(self, client: Client, happened: list[str]) -> None:
        self._client = client
        self._happened = happened
        client.waiters.add(self)

    def wake(self) -> None:
        self._client.waiters.discard(self)
        self._happened.append("fetch woken")


def test_callbacks_of_a_disconnect_run_before_fetches_are_woken() -> None:
    client = Client(host="h", port=1, local_host="h", local_port=2)
    happened: list[str] = []

    def released(disconnected: Client) -> None:
        assert disconnected is client
        client.when_disconnected.discard(released)
        happened.append("locks released")

    client.when_disconnected.add(released)
    for _ in range(2):
        Fetch(client, happened)
    client.disconnected()
    assert happened == ["locks released", "fetch woken", "fetch woken"]
    client.disconnected()
    assert len(happened) == 3
