"""Places in the log are ordered, and its end has every commit before it."""

from __future__ import annotations

from headrace.cdc.mysql.connection import Connection
from headrace.cdc.mysql.place import log_bytes_after, log_end, place
from tests.cdc.mysql.steps import Database


def test_places_are_ordered_by_file_and_position() -> None:
    assert place("bin.000010", 4).is_behind(place("bin.000009", 900))
    assert place("bin.000009", 900).is_behind(place("bin.000009", 4))
    assert not place("bin.000009", 4).is_behind(place("bin.000009", 4))
    assert place("bin.1000000", 4).is_behind(place("bin.999999", 4))


def test_end_of_the_log_is_after_every_commit(database: Database) -> None:
    database.run("CREATE TABLE notes (id INT PRIMARY KEY)")
    with Connection(database.address) as connection:
        before = log_end(connection)
        database.run("INSERT INTO notes VALUES (1)")
        after = log_end(connection)
        assert after.place.is_behind(before.place)
        assert after.gtid == database.value("SELECT @@gtid_binlog_pos")
        file, position = database.rows("SHOW MASTER STATUS")[0][:2]
        assert (after.place.file, after.place.position) == (file, position)
        assert log_bytes_after(connection, before.place) == position - before.place.position
        database.run("FLUSH BINARY LOGS")
        assert log_end(connection).place == place(*database.rows("SHOW MASTER STATUS")[0][:2])


def test_end_of_the_log_in_a_snapshot_is_that_of_what_it_sees(database: Database) -> None:
    database.run("CREATE TABLE notes (id INT PRIMARY KEY)")
    with Connection(database.address) as connection:
        connection.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        begun = log_end(connection)
        database.run("INSERT INTO notes VALUES (1)")
        assert connection.execute("SELECT * FROM notes") == []
        assert log_end(connection) == begun
