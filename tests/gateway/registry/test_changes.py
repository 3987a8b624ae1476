"""What each write changes."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.gateway.registry import changes
from headrace.gateway.registry.changes import Wanted
from headrace.gateway.registry.errors import RegistryError
from headrace.gateway.registry.limits import RegistryLimits
from headrace.gateway.registry.log import Decision
from headrace.gateway.registry.records import Mode, decode_key, decode_value
from headrace.gateway.registry.state import RegistryState
from headrace.schemas.definition import Definition, Reference
from headrace.schemas.levels import Compatibility
from headrace.schemas.parsing import parse


class House:
    """A state to which every decision is applied."""

    def __init__(self) -> None:
        self.state = RegistryState()

    def take(self, decision: Decision[Any]) -> Any:
        for each in decision.changes:
            key = decode_key(each.key)
            self.state.apply(key, each.key, None if each.value is None else decode_value(key, each.value))
        return decision.result

    def add(self, subject: str, text: str, *references: Reference, **more: Any) -> tuple[int, int]:
        wanted = Wanted(definition=Definition(text=text, references=references), **more)
        parsed = parse(Definition(text=text))
        found = self.take(
            changes.new_version(self.state, subject, wanted, parsed.text, parsed, RegistryLimits())
        )
        return found.version, found.id


@pytest.fixture
def house() -> House:
    return House()


def code(decide: Any, *arguments: Any, **options: Any) -> int:
    with pytest.raises(RegistryError) as raised:
        decide(*arguments, **options)
    return raised.value.code


def test_a_new_schema_gets_the_next_id_and_a_known_one_its_own(house: House) -> None:
    assert house.add("a", '"int"') == (1, 1)
    assert house.add("a", '"long"') == (2, 2)
    assert house.add("b", '"int"') == (1, 1)
    assert house.add("b", '{"type": "string"}') == (2, 3)


def test_versions_are_bounded(house: House) -> None:
    house.add("a", '"int"')
    wanted, parsed = Wanted(definition=Definition(text='"long"')), parse(Definition(text='"long"'))
    limits = RegistryLimits(versions_max=1)
    assert code(changes.new_version, house.state, "a", wanted, "x", parsed, limits) == 42205


@pytest.mark.parametrize(
    ("subject", "definition", "expected"),
    [
        ("s", Definition(text="x" * 11), 42201),
        ("s", Definition(text="é" * 6), 42201),
        ("s", Definition(text="x", references=(Reference("a", "a", 1),) * 2), 42201),
        ("s" * 11, Definition(text="x"), 42208),
    ],
)
def test_a_schema_and_its_subject_are_bounded(subject: str, definition: Definition, expected: int) -> None:
    limits = RegistryLimits(schema_bytes_max=10, references_max=1, subject_chars_max=10)
    assert code(changes.check_limits, subject, Wanted(definition=definition), limits) == expected


@pytest.mark.parametrize(
    ("mode", "schema_id", "is_allowed"),
    [
        (Mode.READWRITE, None, True), (Mode.READWRITE, 5, False), (Mode.IMPORT, 5, True),
        (Mode.IMPORT, None, False), (Mode.READONLY, None, False), (Mode.READONLY_OVERRIDE, None, False),
    ],
)  # fmt: skip
def test_a_mode_allows_what_it_says(mode: Mode, schema_id: int | None, is_allowed: bool) -> None:
    wanted = Wanted(definition=Definition(text="x"), id=schema_id)
    if is_allowed:
        changes.check_mode("s", mode, wanted)
    else:
        assert code(changes.check_mode, "s", mode, wanted) == 42205


def test_an_import_brings_its_id_and_version(house: House) -> None:
    assert house.add("a", '"int"', id=40, version=7) == (7, 40)
    assert house.add("b", '"int"', id=40) == (1, 40)
    wanted, parsed = Wanted(definition=Definition(text='"long"'), id=40), parse(Definition(text='"long"'))
    assert code(changes.new_version, house.state, "c", wanted, '"long"', parsed, RegistryLimits()) == 42205
    assert house.add("c", '"long"') == (1, 41)


def test_a_version_is_deleted_softly_and_then_for_good(house: House) -> None:
    house.add("s", '"int"')
    house.add("s", '"long"')
    state = house.state
    assert code(changes.delete_version, state, "s", 1, permanent=True) == 40407
    assert house.take(changes.delete_version(state, "s", 1, permanent=False)) == 1
    assert code(changes.delete_version, state, "s", 1, permanent=False) == 40406
    assert house.take(changes.delete_version(state, "s", 1, permanent=True)) == 1
    assert code(changes.delete_version, state, "s", 1, permanent=True) == 40402
    assert house.take(changes.delete_version(state, "s", None, permanent=False)) == 2
    assert code(changes.delete_version, state, "s", None, permanent=False) == 40401
    assert code(changes.delete_version, state, "other", 1, permanent=False) == 40401


def test_a_subject_is_deleted_softly_and_then_for_good(house: House) -> None:
    house.add("s", '"int"')
    house.add("s", '"long"')
    state = house.state
    assert code(changes.delete_subject, state, "s", permanent=True) == 40405
    assert house.take(changes.delete_subject(state, "s", permanent=False)) == [1, 2]
    assert code(changes.delete_subject, state, "s", permanent=False) == 40404
    assert house.add("s", '"int"') == (3, 1)
    assert house.take(changes.delete_subject(state, "s", permanent=False)) == [3]
    assert house.take(changes.delete_subject(state, "s", permanent=True)) == [1, 2, 3]
    assert code(changes.delete_subject, state, "s", permanent=True) == 40401


@pytest.mark.parametrize("whole", [True, False])
def test_the_settings_of_a_subject_are_deleted_with_its_last_version(house: House, whole: bool) -> None:
    state = house.state
    house.add("s", '"int"')
    house.take(changes.set_compatibility(state, "s", Compatibility.NONE))
    house.take(changes.set_mode(state, "s", Mode.READWRITE, force=False))
    if whole:
        house.take(changes.delete_subject(state, "s", permanent=False))
    else:
        house.take(changes.delete_version(state, "s", 1, permanent=False))
    assert (state.compatibilities, state.modes) == ({}, {})


def test_a_version_that_others_refer_to_is_not_deleted(house: House) -> None:
    house.add("money", '"int"')
    house.add("price", '"long"', Reference("Money", "money", 1))
    state = house.state
    assert code(changes.delete_version, state, "money", 1, permanent=False) == 42206
    assert code(changes.delete_subject, state, "money", permanent=False) == 42206
    house.take(changes.delete_subject(state, "price", permanent=False))
    assert house.take(changes.delete_subject(state, "money", permanent=False)) == [1]


def test_the_greatest_id_is_written_before_its_last_record_is_deleted(house: House) -> None:
    house.add("s", '"int"')
    house.take(changes.delete_version(house.state, "s", 1, permanent=False))
    decision = changes.delete_version(house.state, "s", 1, permanent=True)
    other = House()  # a registry that reads the topic after compaction
    other.take(decision)
    assert other.add("t", '"long"') == (1, 2)


def test_nothing_is_changed_in_a_read_only_subject(house: House) -> None:
    state = house.state
    house.add("s", '"int"')
    house.take(changes.set_mode(state, "s", Mode.READONLY, force=False))
    assert code(changes.delete_version, state, "s", 1, permanent=False) == 42205
    assert code(changes.delete_subject, state, "s", permanent=False) == 42205
    assert code(changes.set_compatibility, state, "s", Compatibility.NONE) == 42205
    assert code(changes.delete_compatibility, state, "s") == 42205
    assert house.take(changes.delete_mode(state, "s")) is Mode.READONLY
    assert code(changes.delete_mode, state, "s") == 40401


def test_an_import_needs_an_empty_registry_or_force(house: House) -> None:
    state = house.state
    house.add("s", '"int"')
    assert code(changes.set_mode, state, None, Mode.IMPORT, force=False) == 42205
    assert code(changes.set_mode, state, "s", Mode.IMPORT, force=False) == 42205
    assert house.take(changes.set_mode(state, "t", Mode.IMPORT, force=False)) is Mode.IMPORT
    assert house.take(changes.set_mode(state, "s", Mode.IMPORT, force=True)) is Mode.IMPORT


def test_a_level_is_reset_to_the_global_one(house: House) -> None:
    state = house.state
    house.take(changes.set_compatibility(state, "s", Compatibility.NONE))
    assert house.take(changes.delete_compatibility(state, "s")) is Compatibility.NONE
    assert state.compatibility("s") is Compatibility.BACKWARD
    assert code(changes.delete_compatibility, state, "s") == 40401
    assert house.take(changes.delete_compatibility(state, None)) is Compatibility.BACKWARD
