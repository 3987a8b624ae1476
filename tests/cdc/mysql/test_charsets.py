"""Text in the character sets of a real server."""

from __future__ import annotations

import pytest

from headrace.cdc.mysql.charsets import Charsets
from headrace.cdc.mysql.connection import Connection
from tests.cdc.mysql.steps import Database


def test_every_character_set_of_the_server_can_be_decoded(database: Database) -> None:
    """The bytes that the server stores for a text are that text again."""
    with Connection(database.address) as connection:
        charsets = Charsets(connection)
        names = [row[0] for row in connection.execute("SHOW CHARACTER SET") if row[0] != "binary"]
        assert len(names) > 30
        for name in names:
            stored = connection.value(f"SELECT CAST(CONVERT('Text 1' USING {name}) AS BINARY)")
            assert charsets.decoder(name)(stored) == "Text 1", name


@pytest.mark.parametrize(
    ("name", "text"),
    [("latin1", "é€\x81"), ("swe7", "Ångström"), ("sjis", "日本"), ("gbk", "中文"), ("utf32", "a🚀")],
)
def test_text_is_that_of_the_server(database: Database, name: str, text: str) -> None:
    with Connection(database.address) as connection:
        stored = connection.value(f"SELECT CAST(CONVERT(%s USING {name}) AS BINARY)", [text])
        assert Charsets(connection).decoder(name)(stored) == text


def test_collation_has_its_character_set(database: Database) -> None:
    with Connection(database.address) as connection:
        charsets = Charsets(connection)
        assert [charsets.of_collation(number) for number in (8, 45, 63, 65_000)] == [
            "latin1",
            "utf8mb4",
            "binary",
            "utf8mb4",
        ]


def test_byte_that_is_not_valid_is_replaced(database: Database) -> None:
    with Connection(database.address) as connection:
        assert Charsets(connection).decoder("utf8mb4")(b"a\xff") == "a\N{REPLACEMENT CHARACTER}"
