from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from headrace.cdc.postgres.pgoutput import Begin, Commit, Insert, Relation, decode
from headrace.cdc.postgres.replication import (
    DATA_OFFSET,
    Data,
    Keepalive,
    ReplicationConnection,
    lsn_number,
    lsn_text,
)
from headrace.cdc.postgres.slot import create_slot_command, start_command
from tests.cdc.postgres.steps import Database


@pytest.fixture
def replication(database: Database) -> Iterator[ReplicationConnection]:
    connection = ReplicationConnection(database.address)
    yield connection
    connection.close()


def wait(replication: ReplicationConnection) -> list[str]:
    while (row := replication.result(wait_s=1)) is None:
        pass
    return row


def test_log_positions_are_numbers_and_texts() -> None:
    assert lsn_number("16/B374D848") == 0x16_B374D848
    assert lsn_text(0x16_B374D848) == "16/B374D848"


def test_stream_has_the_messages_of_a_transaction(
    database: Database, replication: ReplicationConnection
) -> None:
    name = f"headrace_{database.name}"
    database.run("CREATE TABLE t (id int4 PRIMARY KEY)", f"CREATE PUBLICATION {name} FOR TABLE t")
    replication.send(create_slot_command(name))
    slot, start, snapshot, plugin = wait(replication)
    assert (slot, plugin, bool(snapshot)) == (name, "pgoutput", True)
    replication.send(start_command(name, lsn_number(start)))
    assert wait(replication) == []
    database.run("INSERT INTO t VALUES (1)")
    kinds: list[type] = []
    while Commit not in kinds:
        found = replication.read(wait_s=5)
        assert found is not None
        if isinstance(found, Data):
            kinds.append(type(decode(found.content, DATA_OFFSET)))
    assert kinds == [Begin, Relation, Insert, Commit]
    replication.feedback(received=0, confirmed=0, needs_reply=True)
    assert isinstance(replication.read(wait_s=5), Keepalive)


def test_failed_command_can_be_followed_by_another(replication: ReplicationConnection) -> None:
    for _ in range(2):
        replication.send(start_command("headrace_missing", 0))
        with pytest.raises(psycopg.errors.UndefinedObject):
            wait(replication)


def test_command_that_still_runs_has_no_result(
    database: Database, replication: ReplicationConnection
) -> None:
    with psycopg.connect(database.address) as open_transaction:
        open_transaction.execute("SELECT pg_current_xact_id()")
        replication.send(create_slot_command(f"headrace_{database.name}"))
        assert replication.result(wait_s=0.3) is None
    assert wait(replication)
