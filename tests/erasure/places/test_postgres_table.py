"""A table in PostgreSQL: rows are gone, and their bytes from the files of the table."""

from __future__ import annotations

import uuid
from pathlib import Path

import psycopg
import pytest

from headrace.erasure.errors import BadErasure, ErasureInterrupted
from headrace.erasure.places.postgres_table import PostgresTable
from headrace.erasure.subject import Subject
from headrace.testing.postgres import PostgresServer

SECRET = "Ada Lovelace, Dorset Street"


@pytest.fixture
def address(postgres: PostgresServer) -> str:
    address = postgres.create_database(f"d{uuid.uuid4().hex[:10]}")
    with psycopg.connect(address) as connection:
        connection.execute('CREATE TABLE "Users" (id int PRIMARY KEY, name text)')
        connection.execute(
            "INSERT INTO \"Users\" SELECT n, CASE n WHEN 7 THEN %s ELSE 'person' END FROM generate_series(1, 500) n",
            (SECRET,),
        )
    return address


def test_row_is_gone_and_the_files_of_the_table_are_rewritten(address: str) -> None:
    place, subject = PostgresTable(address, "public.Users", "id"), Subject(key='{"id": 7}')
    assert place.remaining(subject) == 1
    place.erase(subject)
    assert place.remaining(subject) == 0
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        query = "SELECT current_setting('data_directory') || '/' || pg_relation_filepath('\"Users\"')"
        (path,) = connection.execute(query).fetchone() or ("",)
        (rows,) = connection.execute('SELECT count(*) FROM "Users"').fetchone() or (0,)
    content = Path(path).read_bytes()
    assert rows == 499
    assert b"person" in content
    assert SECRET.encode() not in content


def test_open_transaction_that_sees_the_row_is_reported(address: str) -> None:
    place, subject = PostgresTable(address, "Users", "id"), Subject(key="7")
    with psycopg.connect(address) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1")  # takes a snapshot, and no lock on the table
        with pytest.raises(ErasureInterrupted, match=r"an open transaction .* still sees the deleted rows"):
            place.erase(subject)
        reader.rollback()
    place.erase(subject)
    assert place.remaining(subject) == 0


def test_missing_table_and_name_without_a_password(address: str) -> None:
    with pytest.raises(BadErasure, match='relation "people" does not exist'):
        PostgresTable(address, "people", "id").remaining(Subject(key="7"))
    assert PostgresTable("postgresql://u:secret@h/d", "t", "c").name == "postgresql://h/d t.c"


def test_server_that_is_away_can_be_continued() -> None:
    with pytest.raises(ErasureInterrupted):
        PostgresTable("postgresql://127.0.0.1:1/none", "t", "c").remaining(Subject(key="7"))
