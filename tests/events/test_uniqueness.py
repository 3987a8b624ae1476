from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import pytest

from headrace.events import Claim, Claimed, CommandRejected, EventStore, Owner, Release, Released, UniqueNames

TIMEOUT_S = 30.0
NameStore: TypeAlias = EventStore[Owner, Claim | Release, Claimed | Released]


@pytest.fixture
def open_names(bootstrap: str, topic: str) -> Iterator[Callable[[], NameStore]]:
    opened: list[NameStore] = []

    def open_names() -> NameStore:
        store: NameStore = EventStore(
            topic, UniqueNames(), bootstrap=bootstrap, partitions=2, timeout_s=TIMEOUT_S
        )
        opened.append(store)
        return store

    yield open_names
    for store in opened:
        store.close()


def test_of_racing_claims_one_is_accepted(open_names: Callable[[], NameStore]) -> None:
    stores = [open_names() for _ in range(3)]
    names = [f"name-{number}" for number in range(6)]

    def claim_all(number: int) -> list[str]:
        won = []
        for name in names:
            try:
                stores[number].handle(name, Claim(owner=f"user-{number}"))
                won.append(name)
            except CommandRejected:
                pass
        return won

    with ThreadPoolExecutor() as threads:
        won = list(threads.map(claim_all, range(3)))
    assert sorted(name for own in won for name in own) == names
    for number, own in enumerate(won):
        for name in own:
            assert open_names().load(name).state == Owner(owner=f"user-{number}")


def test_claim_of_the_owner_is_repeated_without_an_event(open_names: Callable[[], NameStore]) -> None:
    names = open_names()
    names.handle("ada", Claim(owner="user-1"))
    assert names.handle("ada", Claim(owner="user-1")).version == 1


def test_released_name_can_be_claimed_again(open_names: Callable[[], NameStore]) -> None:
    names = open_names()
    names.handle("ada", Claim(owner="user-1"))
    with pytest.raises(CommandRejected, match="another owner"):
        names.handle("ada", Release(owner="user-2"))
    names.handle("ada", Release(owner="user-1"))
    with pytest.raises(CommandRejected, match="another owner"):
        names.handle("ada", Release(owner="user-1"))
    assert names.handle("ada", Claim(owner="user-2")).version == 3
