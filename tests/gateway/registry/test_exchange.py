from __future__ import annotations

import pytest

from headrace.gateway.registry.errors import RegistryError
from headrace.gateway.registry.exchange import is_set, page, prefix_of, schema_id_of


def test_an_id_is_a_number() -> None:
    assert schema_id_of("7") == 7
    for text, code in (("x", 404), ("-1", 404), ("٣", 404), ("9" * 11, 40403)):
        with pytest.raises(RegistryError) as raised:
            schema_id_of(text)
        assert raised.value.code == code


def test_a_page_is_a_part_of_a_list() -> None:
    assert page([1, 2, 3], "1", "1") == [2]
    assert page([1, 2, 3], "-5", "-1") == [1, 2, 3]
    with pytest.raises(RegistryError, match="numbers"):
        page([], "x", "1")


def test_flags_and_prefixes() -> None:
    assert (is_set("True"), is_set("1"), is_set("")) == (True, False, False)
    assert (prefix_of(":*:a"), prefix_of(":.:a"), prefix_of("a")) == ("a", "a", "a")
