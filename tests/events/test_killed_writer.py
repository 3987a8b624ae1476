"""kill -9 of a writer at random moments: every acknowledged event is in the log, once, and versions have no gap."""

from __future__ import annotations

import random
import signal
import time

import pytest

from tests.events import writer_process
from tests.events.accounts import AccountStore, Deposited
from tests.events.conftest import OpenStore
from tests.events.writer_process import ACCOUNT

ROUNDS_QUICK = 3
ROUNDS_SLOW = 30
EVENTS_MAX = 100_000
"""More than a writer can append before it is killed."""


@pytest.mark.timeout(180)
def test_acknowledged_events_survive_a_killed_writer(
    open_store: OpenStore, bootstrap: str, topic: str
) -> None:
    kill_writers(open_store, bootstrap, topic, rounds=ROUNDS_QUICK)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_acknowledged_events_survive_many_killed_writers(
    open_store: OpenStore, bootstrap: str, topic: str
) -> None:
    kill_writers(open_store, bootstrap, topic, rounds=ROUNDS_SLOW)


def kill_writers(open_store: OpenStore, bootstrap: str, topic: str, *, rounds: int) -> None:
    choice = random.Random(rounds)
    store = open_store()
    acknowledged: dict[int, str] = {}
    for number in range(rounds):
        acknowledged |= _write_until_killed(bootstrap, topic, f"w{number}", choice.uniform(0, 0.5))
        _check(store, acknowledged)
        # The next owner opens the partition immediately, whatever the killed one left open.
        version = store.load(ACCOUNT).version
        store.append(ACCOUNT, [Deposited(amount=1, note=f"after {number}")], expected_version=version)
        acknowledged[version + 1] = f"after {number}"
    _check(open_store(), acknowledged)
    assert len(acknowledged) > 2 * rounds, "the writers were killed before they wrote"


def _write_until_killed(bootstrap: str, topic: str, name: str, run_s: float) -> dict[int, str]:
    """What a writer acknowledged by version, until it was killed."""
    with writer_process.start(bootstrap, topic, name, EVENTS_MAX) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline()]
        time.sleep(run_s)
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.readlines()
    # The last line may be cut.
    whole = [line.split() for line in lines if line.endswith("\n")]
    return {int(version): note for version, note in whole}


def _check(store: AccountStore, acknowledged: dict[int, str]) -> None:
    events = store.events(ACCOUNT)
    assert [each.version for each in events] == list(range(1, len(events) + 1))
    notes = {each.version: each.event.note for each in events if isinstance(each.event, Deposited)}
    assert acknowledged.items() <= notes.items()
    assert len(set(notes.values())) == len(notes)
