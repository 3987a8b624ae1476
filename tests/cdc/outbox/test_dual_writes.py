"""Why an outbox: two writes, to a database and to a topic, lose each other. One write to the database does not.

The writers have the same steps. `between` is what happens between two of them: another writer that is faster, or a
`kill -9`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from headrace.cdc.outbox import add
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from tests.cdc.outbox.conftest import Database, Shop

SHORT_LOCK = {
    "sqlite": "PRAGMA busy_timeout = 100",
    "postgresql": "SET lock_timeout = 100",
    "mysql": "SET innodb_lock_wait_timeout = 1",
}


class Killed(Exception):
    """The process ends here."""


@pytest.fixture
def prices(shop: Shop) -> Database:
    shop.database.run("CREATE TABLE prices (id INTEGER PRIMARY KEY, price INTEGER)")
    shop.database.run("INSERT INTO prices VALUES (1, 100)")
    shop.run()
    return shop.database


def in_table(database: Database) -> dict[str, int]:
    return {str(id): price for id, price in database.rows("SELECT id, price FROM prices")}


def in_topic(cluster: Cluster, topic: str) -> dict[str, int]:
    """What a consumer that follows the topic believes: the last value of each key."""
    return {
        (message.key() or b"").decode(): json.loads(message.value() or b"null")["price"]
        for message in read_committed(cluster, topic)
    }


class DualWriter:
    """Writes the database, then the topic: as programs do that have no outbox."""

    def __init__(self, database: Database, cluster: Cluster, topic: str) -> None:
        self._database = database
        self._topic = topic
        self._producer = Producer(cluster.client_config())

    def set_price(self, price: int, between: Callable[[], None] = lambda: None) -> None:
        self._database.run(f"UPDATE prices SET price = {price} WHERE id = 1")
        between()
        self._producer.produce(self._topic, json.dumps({"price": price}), key="1")
        self._producer.flush(30)


class OutboxWriter:
    """Writes both into the database, in one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def set_price(self, price: int, between: Callable[[], None] = lambda: None) -> None:
        with self._database.connect() as connection:
            connection.cursor().execute(f"UPDATE prices SET price = {price} WHERE id = 1")
            between()
            add(connection, aggregatetype="price", aggregateid="1", type="set", payload={"price": price})
            connection.commit()


def kill() -> None:
    raise Killed


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"prices-{uuid.uuid4().hex[:10]}"
    cluster.create_topic(name, partitions=1)
    return name


def test_dual_writes_in_different_order_leave_the_topic_with_another_value_than_the_table(
    prices: Database, cluster: Cluster, topic: str
) -> None:
    first, second = DualWriter(prices, cluster, topic), DualWriter(prices, cluster, topic)
    # The first writer is suspended after its commit, and the second one overtakes it.
    first.set_price(110, between=lambda: second.set_price(120))
    assert in_table(prices) == {"1": 120}
    assert in_topic(cluster, topic) == {"1": 110}, "for ever: nothing corrects it"


def test_dual_write_that_is_killed_in_between_never_reaches_the_topic(
    prices: Database, cluster: Cluster, topic: str
) -> None:
    writer = DualWriter(prices, cluster, topic)
    writer.set_price(110)
    with pytest.raises(Killed):
        writer.set_price(120, between=kill)
    assert in_table(prices) == {"1": 120}
    assert in_topic(cluster, topic) == {"1": 110}


def test_outbox_has_the_order_of_the_commits(shop: Shop, prices: Database) -> None:
    first, second = OutboxWriter(prices), OutboxWriter(prices)
    overtaken: list[str] = []

    def overtake() -> None:
        # The second writer waits for the row, or fails: it cannot commit in between.
        with prices.connect() as connection:
            cursor = connection.cursor()
            cursor.execute(SHORT_LOCK[prices.address.partition(":")[0]])
            try:
                cursor.execute("UPDATE prices SET price = 120 WHERE id = 1")
                connection.commit()
            except Exception as error:
                overtaken.append(str(error))

    first.set_price(110, between=overtake)
    assert overtaken, "the second writer was not kept out"
    second.set_price(120)
    shop.run()
    assert in_topic(shop.cluster, shop.topic("price")) == in_table(prices) == {"1": 120}


def test_outbox_of_a_writer_that_is_killed_in_between_has_neither_change_nor_event(
    shop: Shop, prices: Database
) -> None:
    writer = OutboxWriter(prices)
    writer.set_price(110)
    with pytest.raises(Killed):
        writer.set_price(120, between=kill)
    shop.run()
    assert in_topic(shop.cluster, shop.topic("price")) == in_table(prices) == {"1": 110}
