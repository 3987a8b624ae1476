"""Erasures over several topics and places."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from headrace.erasure import (
    LEDGER_TOPIC,
    BadErasure,
    Eraser,
    ErasureInterrupted,
    ErasureState,
    Subject,
    place_at,
)
from headrace.errors import HeadraceError
from headrace.kafka.cluster import Cluster
from tests.erasure.conftest import WAIT_S, CreateTopic, read, write
from tests.erasure.test_place import Shelf

ADA = Subject(key="ada")


def test_topics_and_places_are_complete_together(
    cluster: Cluster, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topics = [create_topic(), create_topic("compact,delete")]
    for each in topics:
        write(cluster, each, [("ada", "1"), ("bob", "2")])
    with sqlite3.connect(tmp_path / "views.db") as connection:
        connection.execute("CREATE TABLE users (id TEXT)")
        connection.execute("INSERT INTO users VALUES ('ada'), ('bob')")
    connection.close()
    place = place_at(f"sqlite:///{tmp_path}/views.db?table=users&column=id")
    with Eraser(cluster, places=[place]) as eraser:
        request = eraser.request(ADA, topics)
        done = eraser.work(request.id, wait_s=WAIT_S)
    assert done.state is ErasureState.COMPLETE
    assert [(each.found, each.left) for each in done.places] == [(1, 0)]
    for each in topics:
        assert [key for key, value in read(cluster, each) if value is not None] == [b"bob"]


def test_place_that_was_away_is_erased_when_it_is_given_again(cluster: Cluster, topic: str) -> None:
    class Broken(Shelf):
        def erase(self, subject: Subject) -> None:
            raise ErasureInterrupted("the shelf is away", hint="wait")

    write(cluster, topic, [("ada", "1")])
    with Eraser(cluster, places=[Broken({"ada": 2})]) as eraser:
        request = eraser.request(ADA, [topic])
        with pytest.raises(ErasureInterrupted, match="the shelf is away"):
            eraser.work(request.id, wait_s=WAIT_S)
    with Eraser(cluster) as eraser:
        done = eraser.work(request.id, wait_s=WAIT_S)
    assert done.state is ErasureState.OPEN
    assert [each.left for each in done.places] == [None]
    with Eraser(cluster, places=[Shelf({"ada": 2})]) as eraser:
        done = eraser.work(request.id, wait_s=WAIT_S)
    assert done.state is ErasureState.COMPLETE
    assert [(each.found, each.left) for each in done.places] == [(2, 0)]


def test_place_that_still_has_rows_keeps_the_erasure_open(cluster: Cluster, topic: str) -> None:
    class Stubborn(Shelf):
        def erase(self, subject: Subject) -> None:
            pass

    with Eraser(cluster, places=[Stubborn({"ada": 2})]) as eraser:
        request = eraser.request(ADA, [topic])
        done = eraser.work(request.id, wait_s=1)
    assert done.state is ErasureState.OPEN
    assert [(each.left, each.complete_ms) for each in done.places] == [(2, None)]


def test_process_continues_the_open_erasures_of_another(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, [("ada", "1"), ("bob", "2"), ("eve", "3")])
    with Eraser(cluster) as first:
        left = first.request(ADA, [topic])
    with Eraser(cluster) as second:
        own = second.request(Subject(key="bob"), [topic])
        second.work(own.id, wait_s=WAIT_S)
        assert left.id not in {each.id for each in second.open_erasures()} or (
            second.work(left.id, wait_s=WAIT_S).state is ErasureState.COMPLETE
        )
    assert [key for key, value in read(cluster, topic) if value is not None] == [b"eve"]


def test_deleted_topic_is_complete(cluster: Cluster, topic: str) -> None:
    with Eraser(cluster) as eraser:
        request = eraser.request(ADA, [topic])
        cluster.delete_topics([topic])
        done = eraser.work(request.id, wait_s=WAIT_S)
    assert done.state is ErasureState.COMPLETE
    assert done.topics[0].note == "the topic was deleted"


def test_unknown_topic_and_the_ledger_are_rejected(cluster: Cluster, topic: str) -> None:
    with Eraser(cluster) as eraser:
        with pytest.raises(HeadraceError, match="there is no topic nowhere"):
            eraser.request(ADA, [topic, "nowhere"])
        with pytest.raises(BadErasure, match="the list of the erasures themselves"):
            eraser.request(ADA, [LEDGER_TOPIC])
        with pytest.raises(BadErasure, match="there is no erasure e9"):
            eraser.work("e9")
