"""What users need for an outbox: the table, and a call that adds an event."""

from __future__ import annotations

import json

import pytest

from headrace.cdc.errors import BadCapture
from headrace.cdc.outbox import add, create_statement
from tests.cdc.outbox.conftest import Database, Shop


def test_event_is_added_in_the_transaction_of_the_caller(database: Database) -> None:
    with database.connect() as connection:
        add(connection, aggregatetype="order", aggregateid="7", type="paid", payload={"total": 9})
        connection.rollback()
        id = add(connection, aggregatetype="order", aggregateid="7", type="paid", payload={"total": 10})
        connection.commit()
    ((found, payload),) = database.rows("SELECT id, payload FROM outbox")
    assert str(found) == id
    assert (json.loads(payload) if isinstance(payload, str) else payload) == {"total": 10}


def test_added_event_is_published_with_its_headers(shop: Shop) -> None:
    with shop.database.connect() as connection:
        id = add(
            connection,
            aggregatetype="order",
            aggregateid="7",
            type="paid",
            payload='{"total": 9}',
            headers={"trace": "t-1"},
        )
        connection.commit()
    shop.run()
    (event,) = shop.events("order")
    assert event.headers() == [("id", id.encode()), ("eventType", b"paid"), ("trace", b"t-1")]


def test_name_of_the_table_is_in_the_statement_and_an_unknown_database_is_rejected() -> None:
    assert create_statement("mysql", "shop.events").startswith("CREATE TABLE shop.events (\n    id ")
    with pytest.raises(BadCapture, match="'oracle' is not a database with an outbox") as rejected:
        create_statement("oracle")
    assert "postgresql, mysql, sqlite" in rejected.value.hint
