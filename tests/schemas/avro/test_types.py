"""The types of a parsed Avro schema."""

from __future__ import annotations

from headrace.schemas.avro.types import AvroSchema, Fixed, Named, Primitive, unqualified


def test_a_named_use_resolves_to_its_definition_and_all_else_to_itself() -> None:
    fixed = Fixed(name="a.F", size=4)
    schema = AvroSchema(Named("a.F"), {"a.F": fixed})
    assert schema.resolve(schema.root) is fixed
    assert schema.resolve(Primitive("int")) == Primitive("int")


def test_an_unqualified_name_is_the_last_part() -> None:
    assert [unqualified(each) for each in ("R", "a.R", "a.b.R")] == ["R"] * 3
