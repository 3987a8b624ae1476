"""A schema as it is written."""

from headrace.schemas.definition import Definition, Reference, SchemaType


def test_a_definition_is_avro_without_references_by_default() -> None:
    assert Definition(text="x") == Definition(text="x", type=SchemaType.AVRO, references=())


def test_definitions_with_other_references_differ() -> None:
    assert Definition(text="x", references=(Reference("a", "s", 1),)) != Definition(
        text="x", references=(Reference("a", "s", 2),)
    )
