"""Chosen fields of JSON values are encrypted, and the others stay readable."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from headrace.shredding import BadCiphertext, FieldCipher, KeyedCipher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDER: dict[str, Any] = {
    "id": 1,
    "user": "ada",
    "name": "Ada Lovelace",
    "ship_to": {"street": "Dorset Street", "city": "London"},
    "total": 12.5,
}


@pytest.fixture
def orders(cipher: KeyedCipher) -> FieldCipher:
    return FieldCipher(cipher, subject="user", fields=["name", "ship_to.street", "phone"])


def test_only_the_chosen_fields_are_encrypted(orders: FieldCipher) -> None:
    sealed = orders.encrypt(ORDER)
    assert b"Lovelace" not in sealed
    assert b"Dorset" not in sealed
    readable = json.loads(sealed)
    assert (readable["id"], readable["user"], readable["ship_to"]["city"]) == (1, "ada", "London")
    assert orders.decrypt(sealed) == ORDER
    assert ORDER["name"] == "Ada Lovelace", "the caller's object was changed"


def test_fields_are_null_when_the_key_is_destroyed(orders: FieldCipher, cipher: KeyedCipher) -> None:
    sealed = orders.encrypt(json.dumps(ORDER))
    cipher.keys.destroy("ada")
    found = orders.decrypt(sealed)
    assert found == {**ORDER, "name": None, "ship_to": {"street": None, "city": "London"}}


def test_person_may_be_a_number(orders: FieldCipher, cipher: KeyedCipher) -> None:
    sealed = orders.encrypt({**ORDER, "user": 7, "phone": None})
    assert orders.decrypt(sealed)["phone"] is None
    assert cipher.keys.live_keys("7") == 1


def test_plain_values_of_before_are_read(orders: FieldCipher) -> None:
    assert orders.decrypt(json.dumps(ORDER).encode()) == ORDER


def test_it_can_be_sent_to_other_processes(orders: FieldCipher) -> None:
    assert pickle.loads(pickle.dumps(orders)).decrypt(orders.encrypt(ORDER)) == ORDER


def test_it_decrypts_in_spark_until_the_key_is_destroyed(
    orders: FieldCipher, cipher: KeyedCipher, spark: SparkSession
) -> None:
    from pyspark.sql import functions as F

    name = F.udf(lambda value: orders.decrypt(value)["name"], "string")
    rows = [(orders.encrypt({**ORDER, "user": user}),) for user in ("ada", "grace")]
    frame = spark.createDataFrame(rows, "value binary").select(name("value").alias("name"))
    assert [row["name"] for row in frame.collect()] == ["Ada Lovelace", "Ada Lovelace"]
    cipher.keys.destroy("grace")
    assert [row["name"] for row in frame.collect()] == ["Ada Lovelace", None]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"{", "is not JSON"),
        (b"[1]", "is not a JSON object"),
        (b'{"name": "Ada"}', "names no person in its field 'user'"),
        (b'{"user": {"id": 1}}', "names no person"),
    ],
)
def test_value_that_cannot_be_encrypted_is_an_error(orders: FieldCipher, value: bytes, problem: str) -> None:
    with pytest.raises(BadCiphertext, match=problem):
        orders.encrypt(value)


def test_field_that_was_changed_is_an_error(orders: FieldCipher) -> None:
    with pytest.raises(BadCiphertext, match="'name' has no encrypted value"):
        orders.decrypt({"name": "encrypted:%%%"})
