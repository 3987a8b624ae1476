"""The protocol of places: whatever has rows of a person can be one."""

from __future__ import annotations

from pathlib import Path

from headrace.erasure import Place, Subject
from headrace.erasure.places.delta_table import DeltaFolder
from headrace.erasure.places.person_keys import PersonKeys
from headrace.erasure.places.postgres_table import PostgresTable
from headrace.erasure.places.redis_keys import RedisKeys
from headrace.erasure.places.search_index import SearchIndex
from headrace.erasure.places.sqlite_table import SqliteTable


class Shelf:
    """A place of a test, or of a user."""

    def __init__(self, rows: dict[str, int], name: str = "shelf") -> None:
        self.name = name
        self.rows = rows

    def remaining(self, subject: Subject) -> int:
        return self.rows.get(subject.key, 0)

    def erase(self, subject: Subject) -> None:
        self.rows.pop(subject.key, None)


def test_own_class_is_a_place() -> None:
    place: Place = Shelf({"ada": 2})
    place.erase(Subject(key="ada"))
    assert place.remaining(Subject(key="ada")) == 0


def test_every_kind_of_target_is_a_place() -> None:
    kinds: list[type[Place]] = [DeltaFolder, PersonKeys, PostgresTable, RedisKeys, SearchIndex, SqliteTable]
    assert all(each.erase is not Place.erase for each in kinds)
    assert SqliteTable(Path("views.db"), "users", "id").name == "sqlite views.db users.id"
