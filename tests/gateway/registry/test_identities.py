"""Which schemas are the same one."""

from __future__ import annotations

from headrace.gateway.registry.identities import of_parsed, of_text
from headrace.schemas.definition import Definition, Reference
from headrace.schemas.parsing import parse


def test_white_space_and_the_order_of_keys_do_not_matter() -> None:
    one = Definition(text='{"type": "fixed", "name": "F", "size": 4}')
    two = Definition(text='{"size":4,"name":"F","type":"fixed"}')
    assert of_text(one, {}) == of_text(two, {})
    assert of_parsed(one, parse(one), {}) == of_parsed(two, parse(two), {})


def test_parsed_schemas_are_the_same_in_more_ways_of_writing() -> None:
    one, two = Definition(text='{"type": "int"}'), Definition(text='"int"')
    assert of_text(one, {}) != of_text(two, {})
    assert of_parsed(one, parse(one), {}) == of_parsed(two, parse(two), {})


def test_references_and_metadata_are_part_of_the_identity() -> None:
    plain = Definition(text='"int"')
    referring = Definition(text='"int"', references=(Reference("a", "s", 1),))
    assert len({of_text(plain, {}), of_text(referring, {}), of_text(plain, {"metadata": {"a": 1}})}) == 3


def test_a_text_that_is_no_json_is_equal_to_itself() -> None:
    assert of_text(Definition(text="{"), {}) == of_text(Definition(text="{"), {})
