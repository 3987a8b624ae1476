"""The connection that streams: its number among the replicas, and what its errors mean."""

from __future__ import annotations

import pytest

from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.mysql.binlog import Heartbeat, Rotate
from headrace.cdc.mysql.connection import Connection
from headrace.cdc.mysql.place import log_end
from headrace.cdc.mysql.replication import Replication, server_id
from tests.cdc.mysql.steps import Database


def open_at(address: str, *, file: str = "", position: int = 4, gtid: str = "") -> Replication:
    return Replication(address, server_id=77, file=file, position=position, gtid=gtid)


def read_all(stream: Replication) -> None:
    for _ in range(1_000):
        stream.read()


def test_capture_has_a_number_of_its_own_and_always_the_same() -> None:
    first = server_id("crm", "mysql://a@h/crm")
    assert first == server_id("crm", "mysql://b@other/crm")
    assert first != server_id("shop", "mysql://a@h/crm")
    assert 0 < first < 2**32
    assert server_id("crm", "mysql://a@h/crm?server_id=9") == 9


def test_idle_server_sends_heartbeats_with_its_place(database: Database) -> None:
    with Connection(database.address) as connection:
        end = log_end(connection)
    stream = open_at(database.address, file=end.place.file, position=end.place.position)
    first = stream.read().message
    assert isinstance(first, Rotate)
    events = [stream.read() for _ in range(3)]
    stream.close()
    last = events[-1]
    assert last.message == Heartbeat(end.place.file)
    assert last.end == end.place.position


@pytest.mark.parametrize(
    "place",
    [{"file": "bin.999999"}, {"gtid": "0-1-999999999"}, {"file": "bin.000001", "position": 999_999_999}],
)
def test_place_that_the_log_does_not_have_is_an_error_with_the_remedy(
    database: Database, place: dict[str, object]
) -> None:
    with pytest.raises(BadCapture, match="does not have the changes") as failed:
        open_at(database.address, **place).read()  # type: ignore[arg-type]
    assert "new snapshot" in failed.value.hint


def test_user_without_the_permission_is_rejected_with_the_grant(database: Database) -> None:
    address = database.create_user("SELECT ON DB.*")
    with pytest.raises(BadCapture, match="may not read the binary log") as denied:
        open_at(address, file=database.rows("SHOW MASTER STATUS")[0][0]).read()
    assert denied.value.hint == f"GRANT REPLICATION SLAVE ON *.* TO '{database.name}_user'@'%'"


def test_stream_that_the_server_ends_is_unavailable(database: Database) -> None:
    stream = open_at(database.address, file=database.rows("SHOW MASTER STATUS")[0][0])
    stream.read()
    (id,) = next(
        row[:1]
        for row in database.rows("SHOW PROCESSLIST")
        if row[4] == "Binlog Dump" and row[3] == database.name
    )
    database.run(f"KILL {id}")
    with pytest.raises(SourceUnavailable):
        for _ in iter(lambda: read_all(stream), stream):  # the server ends it a moment later
            pass
    stream.close()
