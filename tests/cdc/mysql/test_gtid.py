"""States of transaction ids, as MariaDB and MySQL write them."""

from __future__ import annotations

import pytest

from headrace.cdc.mysql.gtid import after, encoded, is_mariadb

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "4e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("state", "gtid", "expected"),
    [
        ("", "0-1-5", "0-1-5"),
        ("0-1-5", "0-2-6", "0-2-6"),
        ("0-1-5,7-1-9", "0-1-6", "0-1-6,7-1-9"),
        ("0-1-5", "7-1-1", "0-1-5,7-1-1"),
        ("", f"{A}:1", f"{A}:1"),
        (f"{A}:1-5", f"{A}:6", f"{A}:1-6"),
        (f"{A}:1-5", f"{A}:8", f"{A}:1-5:8"),
        (f"{A}:1-5", f"{A}:3", f"{A}:1-5"),
        (f"{A}:1-5", f"{B}:1", f"{A}:1-5,{B}:1"),
    ],
)
def test_transaction_is_added_to_the_state(state: str, gtid: str, expected: str) -> None:
    assert after(state, gtid) == expected


def test_ids_of_the_servers_are_told_apart() -> None:
    assert is_mariadb("0-1-5,7-1-9")
    assert not is_mariadb(f"{A}:1-5")


def test_set_of_mysql_is_encoded_as_its_protocol_has_it() -> None:
    """One source, one range; its end is the first number after it."""
    numbers = (1).to_bytes(8, "little") + bytes.fromhex(A.replace("-", "")) + (1).to_bytes(8, "little")
    assert encoded(f"{A}:1-5") == numbers + (1).to_bytes(8, "little") + (6).to_bytes(8, "little")
