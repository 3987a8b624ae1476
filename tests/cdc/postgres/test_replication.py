from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from headrace.cdc.postgres.pgoutput import Begin, Commit, Insert, Relation, decode
from headrace.cdc.postgres.replication import (
    AHEAD_BYTES,
    AHEAD_MESSAGES,
    DATA_OFFSET,
    Data,
    Keepalive,
    ReplicationConnection,
    lsn_number,
    lsn_text,
    parse,
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
        messages = replication.read(wait_s=5)
        assert messages
        data = [found for found in map(parse, messages) if isinstance(found, Data)]
        kinds += [type(decode(found.content, DATA_OFFSET)) for found in data]
    assert kinds == [Begin, Relation, Insert, Commit]
    replication.feedback(received=0, confirmed=0, needs_reply=True)
    assert isinstance(parse(replication.read(wait_s=5)[-1]), Keepalive)


def test_messages_that_are_read_together_have_a_bound(
    database: Database, replication: ReplicationConnection
) -> None:
    name = f"headrace_{database.name}"
    database.run("CREATE TABLE t (id int4 PRIMARY KEY, v text)", f"CREATE PUBLICATION {name} FOR TABLE t")
    replication.send(create_slot_command(name))
    _, start, _, _ = wait(replication)
    replication.send(start_command(name, lsn_number(start)))
    assert wait(replication) == []
    database.run(
        f"INSERT INTO t SELECT n, 'x' FROM generate_series(1, {3 * AHEAD_MESSAGES}) n",
        "INSERT INTO t SELECT -n, repeat('x', 100000) FROM generate_series(1, 50) n",
    )
    commits, counts, sizes = 0, [], []
    while commits < 2:
        messages = replication.read(wait_s=5)
        commits += sum(message[DATA_OFFSET : DATA_OFFSET + 1] == b"C" for message in messages)
        counts.append(len(messages))
        sizes.append(sum(map(len, messages)))
    assert sum(counts) >= 3 * AHEAD_MESSAGES + 50
    assert max(counts) <= AHEAD_MESSAGES
    assert max(sizes) <= AHEAD_BYTES + 200_000


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
