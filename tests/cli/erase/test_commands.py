"""`headrace erase` on a real broker."""

from __future__ import annotations

import json
import sqlite3
import uuid
from pathlib import Path

import pytest

from headrace.kafka.cluster import Cluster
from headrace.shredding import KeyedCipher, KeyStore, create_master_key
from tests.cli.conftest import Headrace
from tests.cli.typed_json import json_problems
from tests.erasure.conftest import read, write


@pytest.fixture
def cluster(bootstrap: str) -> Cluster:
    return Cluster(bootstrap, timeout_s=30)


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"erased.{uuid.uuid4().hex[:10]}"
    cluster.create_topic(name, partitions=1, config={"cleanup.policy": "compact"})
    write(cluster, name, [("ada", "1"), ("bob", "2")])
    return name


def keys_with_values(cluster: Cluster, topic: str) -> list[bytes]:
    return [key for key, value in read(cluster, topic) if value is not None]


def test_key_is_erased_shown_and_found_again_by_its_key(
    headrace: Headrace, cluster: Cluster, topic: str
) -> None:
    done = headrace("erase", "ada", "--topic", topic, "--wait", "--format", "json").out
    assert json_problems("erase key", done) == []
    report = json.loads(done)
    assert (report["state"], report["topics"][0]["tombstones"]) == ("complete", 1)
    assert keys_with_values(cluster, topic) == [b"bob"]
    shown = headrace("erase", "status", report["id"], "--format", "json").out
    assert json_problems("erase status", shown) == []
    assert json.loads(shown)[0]["topics"] == report["topics"]
    assert report["id"] in headrace("erase", "status", "--key", "ada").out
    assert report["id"] not in headrace("erase", "status", "--key", "bob").out


def test_key_may_be_the_name_of_a_command(headrace: Headrace, cluster: Cluster, topic: str) -> None:
    write(cluster, topic, [("status", "3")])
    headrace("erase", "key", "status", "--topic", topic, "--wait")
    assert keys_with_values(cluster, topic) == [b"ada", b"bob"]


def test_topics_by_pattern_and_values_that_name_the_person(
    headrace: Headrace, cluster: Cluster, topic: str
) -> None:
    orders = f"{topic}.orders"
    cluster.create_topic(orders, partitions=1, config={"cleanup.policy": "compact"})
    write(cluster, orders, [("o1", '{"user": "ada"}'), ("o2", '{"user": "bob"}')])
    shown = headrace("erase", "ada", "--topics", f"{topic}*", "--match", "user=ada", "--wait")
    assert "complete everywhere it was requested" in shown.out
    assert keys_with_values(cluster, topic) == [b"bob"]
    assert keys_with_values(cluster, orders) == [b"o2"]


def test_open_erasure_is_continued(headrace: Headrace, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "views.db") as connection:
        connection.execute("CREATE TABLE users (id TEXT)")
        connection.execute("INSERT INTO users VALUES ('ada'), ('bob')")
    connection.close()
    place = f"sqlite:///{tmp_path}/views.db?table=users&column=id"
    missing = f"sqlite:///{tmp_path}/views.db?table=people&column=id"
    failed = headrace("erase", "ada", "--topic", topic, "--place", missing, "--place", place, code=1)
    assert "no such table: people" in failed.err
    shown = json.loads(headrace("erase", "status", "--key", "ada", "--format", "json").out)[-1]
    assert shown["state"] == "open"
    # The table exists now, and the erasure is continued.
    with sqlite3.connect(tmp_path / "views.db") as connection:
        connection.execute("CREATE TABLE people (id TEXT)")
    connection.close()
    done = headrace(
        "erase", "continue", shown["id"], "--place", missing, "--place", place, "--wait", "--format", "json"
    ).out
    assert json_problems("erase continue", done) == []
    assert [each["left"] for each in json.loads(done)[0]["places"]] == [0, 0]


def test_what_retention_keeps_is_an_error_of_wait(headrace: Headrace, cluster: Cluster) -> None:
    topic = f"erased.{uuid.uuid4().hex[:10]}"
    cluster.create_topic(topic, partitions=1, config={"retention.ms": "-1"})
    write(cluster, topic, [("ada", "1")])
    shown = headrace("erase", "ada", "--topic", topic, "--wait", code=1)
    assert "kept" in shown.out
    assert "retention never deletes its records" in shown.err


def test_key_is_shredded_without_a_broker(headrace: Headrace, tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key")
    cipher = KeyedCipher(KeyStore(tmp_path / "keys.db", master=tmp_path / "master.key"))
    sealed = cipher.encrypt("ada", b"one lamp")
    arguments = ("--shred", "--keys", str(tmp_path / "keys.db"), "--bootstrap", "127.0.0.1:1")
    shown = headrace("erase", "ada", *arguments, "--format", "json").out
    assert json_problems("erase key", shown) == []
    assert [(each["found"], each["left"]) for each in json.loads(shown)["places"]] == [(1, 0)]
    assert cipher.decrypt(sealed) is None


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["ada"], 1, "nothing is named where the key should be erased"),
        (["ada", "--topics", "nowhere*"], 1, "no topic matches 'nowhere*'"),
        (["ada", "--topic", "nowhere"], 1, "there is no topic nowhere"),
        (["ada", "--shred"], 2, "--shred and --keys FILE belong together"),
        (["ada", "--topic", "t", "--match", "user"], 1, "does not name a field"),
        (["ada", "--place", "views.db"], 1, "is not a place that can be erased"),
        (["status", "e9"], 1, "there is no erasure e9"),
    ],
)
def test_wrong_request_is_an_error(headrace: Headrace, arguments: list[str], code: int, problem: str) -> None:
    assert problem in headrace("erase", *arguments, code=code).err
