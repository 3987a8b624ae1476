"""Two processes append to the same aggregate at the same time: every version is written once."""

from __future__ import annotations

import pytest

from tests.events import writer_process
from tests.events.accounts import Deposited
from tests.events.conftest import OpenStore
from tests.events.writer_process import ACCOUNT

EVENTS_PER_WRITER = 25


@pytest.mark.timeout(180)
def test_two_processes_lose_double_and_skip_no_version(
    open_store: OpenStore, bootstrap: str, topic: str
) -> None:
    store = open_store()
    writers = [writer_process.start(bootstrap, topic, name, EVENTS_PER_WRITER) for name in ("a", "b")]
    printed = []
    for writer in writers:
        with writer:
            printed += (writer.communicate()[0]).splitlines()
            assert writer.returncode == 0
    acknowledged = {
        int(line.split()[0]): line.split()[1] for line in printed if not line.startswith("conflicts")
    }
    conflicts = [int(line.split()[1]) for line in printed if line.startswith("conflicts")]
    events = store.events(ACCOUNT)
    assert [each.version for each in events] == list(range(1, 2 * EVENTS_PER_WRITER + 1))
    assert {each.version: _note(each.event) for each in events} == acknowledged
    assert len({each.id for each in events}) == len(events)
    assert sum(conflicts) > 0, "the writers did not meet, which shows nothing"


def _note(event: object) -> str:
    assert isinstance(event, Deposited)
    return event.note
