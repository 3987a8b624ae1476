"""The bodies of requests."""

from __future__ import annotations

import pytest

from headrace.gateway.registry.errors import RegistryError
from headrace.gateway.registry.requests import ConfigBody, SchemaBody, decode_body
from headrace.schemas.definition import Definition, Reference, SchemaType


def test_a_schema_comes_with_its_type_references_and_what_belongs_to_it() -> None:
    body = decode_body(
        '{"schema": "{}", "schemaType": "JSON", "references": [{"name": "a", "subject": "s", "version": 2}],'
        ' "metadata": {"owner": "me"}, "ruleSet": null, "id": -1, "version": 0, "unknown": 1}',
        SchemaBody,
    )
    wanted = body.wanted()
    assert wanted.definition == Definition(
        text="{}", type=SchemaType.JSON, references=(Reference("a", "s", 2),)
    )
    assert (wanted.extra, wanted.id, wanted.version) == ({"metadata": {"owner": "me"}}, None, None)


def test_a_schema_is_avro_by_default() -> None:
    assert decode_body('{"schema": "1"}', SchemaBody).wanted().definition.type is SchemaType.AVRO


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", 400),
        ("", 400),
        ('{"schema": "x", "metadata": {"a": ' + "[" * 100_000, 400),
        ("-1", 422),
        ('"invalid"', 422),
        ('{"schema": 1}', 422),
        ('{"schema": "x", "references": [{}]}', 422),
        ("{}", 42201),
        ('{"schema": ""}', 42201),
        ('{"schema": "x", "schemaType": "AVROO"}', 42201),
    ],
)
def test_a_wrong_body_has_a_code(text: str, code: int) -> None:
    with pytest.raises(RegistryError) as raised:
        decode_body(text, SchemaBody).wanted()
    assert raised.value.code == code


def test_a_missing_level_is_none() -> None:
    assert decode_body("{}", ConfigBody).compatibility is None
