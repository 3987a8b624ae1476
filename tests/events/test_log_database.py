from __future__ import annotations

import pytest

from headrace.events.log_database import LogDatabase


@pytest.fixture
def database() -> LogDatabase:
    return LogDatabase("")


def test_position_starts_at_zero_and_is_kept_by_topic(database: LogDatabase) -> None:
    database.set_position("a", 5)
    assert (database.position("a"), database.position("b")) == (5, 0)


def test_rollback_removes_what_a_transaction_added(database: LogDatabase) -> None:
    database.set_position("a", 5)
    database.begin()
    database.set_position("a", 9)
    database.rollback()
    assert database.position("a") == 5


def test_commit_keeps_it(database: LogDatabase) -> None:
    database.begin()
    database.set_position("a", 9)
    database.commit()
    assert database.position("a") == 9
