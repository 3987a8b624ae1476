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


def test_those_who_watch_a_client_hear_of_its_end_before_its_fetches_are_woken() -> None:
    client = Client(host="h", port=1, local_host="h", local_port=2)
    happened: list[str] = []

    def released(gone: Client) -> None:
        assert gone is client
        client.when_gone.discard(released)
        happened.append("locks released")

    client.when_gone.add(released)
    for _ in range(2):
        Fetch(client, happened)
    client.gone()
    assert happened == ["locks released", "fetch woken", "fetch woken"]
    client.gone()
    assert len(happened) == 3
