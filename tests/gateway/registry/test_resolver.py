"""Schemas of the registry, parsed with the schemas that they refer to."""

from __future__ import annotations

import pytest

from headrace.gateway.registry.records import Version
from headrace.gateway.registry.resolver import Resolver
from headrace.schemas.definition import Definition, Reference
from headrace.schemas.errors import InvalidSchema


def resolver(*definitions: Definition) -> Resolver:
    """Of the subjects s1, s2, …, in version 1 each."""
    versions = {
        f"s{n}": Version(subject=f"s{n}", version=1, id=n, definition=each)
        for n, each in enumerate(definitions, start=1)
    }
    return Resolver(lambda reference: versions.get(reference.subject))


MONEY = Definition(text='{"type": "fixed", "name": "Money", "size": 8}')
PRICE = Definition(text='{"type": "array", "items": "Money"}', references=(Reference("Money", "s1", 1),))


def test_a_schema_uses_the_names_of_its_references_and_of_theirs() -> None:
    order = Definition(text='["null", "Money"]', references=(Reference("Price", "s2", 1),))
    assert set(resolver(MONEY, PRICE).parse(order, strict=True).schema.names) == {"Money"}


def test_a_missing_reference_is_an_error_that_names_it() -> None:
    with pytest.raises(InvalidSchema, match='subject "s1" and version 1'):
        resolver().parse(PRICE, strict=True)


def test_a_cycle_of_references_ends() -> None:
    looped = Definition(text='"int"', references=(Reference("x", "s1", 1),))
    with pytest.raises(InvalidSchema, match="levels deep"):
        resolver(looped).parse(looped, strict=True)


def test_a_schema_is_parsed_once() -> None:
    found = resolver(MONEY)
    assert found.parse(PRICE, strict=True) is found.parse(PRICE, strict=True)
