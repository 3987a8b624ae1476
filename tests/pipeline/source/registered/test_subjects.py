"""Which schema a source is read with. test_columns.py has the errors of sources."""

from __future__ import annotations

import pytest

from headrace.pipeline import BadSource
from headrace.pipeline.source.registered import subjects
from headrace.pipeline.source.registered.subjects import ReaderSchema, find_reader_schema, reader_schema_of
from headrace.registered.client import RegistryClient
from headrace.registered.schema import RegisteredSchema, SchemaText
from headrace.schemas.definition import Definition


def test_reader_is_the_latest_or_a_given_version_and_writers_are_the_newest(
    registry: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subjects, "WRITERS_MAX", 2)
    client = RegistryClient(registry)
    for kind in ("int", "long", "float"):
        client.register(f"{name}-value", Definition(text=f'"{kind}"'))
    latest = find_reader_schema(registry, [name], format="avro-registry")
    assert (latest.registered.version, [each.version for each in latest.writers]) == (3, [2, 3])
    first = find_reader_schema(
        registry, ["other"], format="avro-registry", subject=f"{name}-value", version=1
    )
    assert first.registered.schema.text == '"int"'
    assert first.registered.subject == f"{name}-value"


def test_subject_of_keys_and_of_several_topics(registry: str, name: str) -> None:
    RegistryClient(registry).register(f"{name}-key", Definition(text='"int"'))
    assert find_reader_schema(registry, [name], format="avro-registry", is_key=True).registered.version == 1
    with pytest.raises(BadSource, match="several topics have several subjects"):
        find_reader_schema(registry, ["a", "b"], format="avro-registry")


def test_only_the_text_of_a_registered_schema_is_one() -> None:
    schema = ReaderSchema(registry="x", registered=RegisteredSchema(id=1, schema=SchemaText(text='"int"')))
    assert reader_schema_of(schema.to_text()) == schema
    for other in (None, "", "{}", '{"*": {"type": "record"}}', '{"type": "struct", "fields": []}'):
        assert reader_schema_of(other) is None
