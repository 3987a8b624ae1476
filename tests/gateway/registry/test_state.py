"""What the records of the topic say."""

from __future__ import annotations

import pytest

from headrace.gateway.registry import identities
from headrace.gateway.registry.records import (
    ConfigKey,
    DeletedSubject,
    DeleteSubjectKey,
    GreatestId,
    Key,
    Mode,
    ModeKey,
    NoopKey,
    SchemaKey,
    Value,
    Version,
    encode_key,
)
from headrace.gateway.registry.state import RegistryState
from headrace.schemas.definition import Definition, Reference
from headrace.schemas.levels import Compatibility


def version(subject: str, number: int, schema_id: int, text: str = '"int"', **more: object) -> Version:
    definition = Definition(text=text, references=more.pop("references", ()))  # type: ignore[arg-type]
    return Version(subject=subject, version=number, id=schema_id, definition=definition, **more)  # type: ignore[arg-type]


@pytest.fixture
def state() -> RegistryState:
    return RegistryState()


def apply(state: RegistryState, key: Key, value: Value | None) -> None:
    state.apply(key, encode_key(key), value)


def add(state: RegistryState, *versions: Version) -> None:
    for each in versions:
        apply(state, SchemaKey(each.subject, each.version), each)


def numbers(state: RegistryState, subject: str, *, deleted: bool = False) -> list[int]:
    return [each.version for each in state.versions(subject, deleted=deleted)]


def test_the_last_record_of_a_version_counts(state: RegistryState) -> None:
    add(state, version("s", 1, 1), version("s", 1, 2, '"long"'))
    assert state.version("s", 1, deleted=False) == version("s", 1, 2, '"long"')
    assert (state.of_id(1, deleted=True), state.versions_count) == ([], 1)


def test_deleting_a_subject_hides_its_versions_up_to_one(state: RegistryState) -> None:
    add(state, version("s", 1, 1), version("s", 2, 2))
    apply(state, DeleteSubjectKey("s"), DeletedSubject(2))
    add(state, version("s", 3, 3))
    assert (numbers(state, "s"), numbers(state, "s", deleted=True)) == ([3], [1, 2, 3])
    assert state.subjects(deleted=False) == ["s"]


def test_a_subject_with_deleted_versions_only_is_hidden(state: RegistryState) -> None:
    add(state, version("s", 1, 1, is_deleted=True))
    assert (state.subjects(deleted=False), state.subjects(deleted=True)) == ([], ["s"])


def test_a_tombstone_removes_a_version_and_the_same_schema_keeps_its_id(state: RegistryState) -> None:
    add(state, version("s", 1, 5))
    apply(state, SchemaKey("s", 1), None)
    assert (state.subjects(deleted=True), state.versions_count, state.greatest_id) == ([], 0, 5)
    assert state.id_of([identities.of_text(Definition(text='"int"'), {})]) == 5


def test_a_tombstone_of_nothing_is_ignored(state: RegistryState) -> None:
    apply(state, SchemaKey("s", 1), None)
    assert state.versions_count == 0


def test_versions_are_found_by_id(state: RegistryState) -> None:
    add(state, version("b", 1, 1), version("a", 2, 1), version("c", 1, 1, is_deleted=True))
    assert [each.subject for each in state.of_id(1, deleted=False)] == ["a", "b"]
    assert [each.subject for each in state.of_id(1, deleted=True)] == ["a", "b", "c"]


def test_deleted_versions_keep_their_numbers(state: RegistryState) -> None:
    add(state, version("s", 4, 1, is_deleted=True))
    assert (state.next_version("s"), state.next_version("other")) == (5, 1)


def test_the_greatest_id_survives_the_records_that_had_it(state: RegistryState) -> None:
    apply(state, NoopKey(), GreatestId(9))
    add(state, version("s", 1, 3))
    assert state.greatest_id == 9


def test_referrers_are_versions_that_are_not_deleted(state: RegistryState) -> None:
    reference = (Reference("n", "a", 1),)
    add(state, version("a", 1, 1), version("b", 1, 2, "x", references=reference))
    assert [each.subject for each in state.referrers("a", 1, deleted=False)] == ["b"]
    add(state, version("b", 1, 2, "x", references=reference, is_deleted=True))
    assert state.referrers("a", 1, deleted=False) == []
    apply(state, SchemaKey("b", 1), None)
    assert state.referrers("a", 1, deleted=False) == []


def test_levels_and_modes_of_a_subject_come_before_the_global_ones(state: RegistryState) -> None:
    assert (state.compatibility("s"), state.mode("s")) == (Compatibility.BACKWARD, Mode.READWRITE)
    apply(state, ConfigKey(None), Compatibility.FULL)
    apply(state, ConfigKey("s"), Compatibility.NONE)
    apply(state, ModeKey("s"), Mode.READONLY)
    assert (state.compatibility("s"), state.compatibility("t")) == (Compatibility.NONE, Compatibility.FULL)
    assert (state.mode("s"), state.mode("t")) == (Mode.READONLY, Mode.READWRITE)
    apply(state, ConfigKey("s"), None)
    apply(state, ModeKey("s"), None)
    apply(state, ConfigKey(None), None)
    assert (state.compatibility("s"), state.mode("s")) == (Compatibility.BACKWARD, Mode.READWRITE)


def test_the_override_comes_before_the_modes_of_subjects(state: RegistryState) -> None:
    apply(state, ModeKey("s"), Mode.READWRITE)
    apply(state, ModeKey(None), Mode.READONLY_OVERRIDE)
    assert state.mode("s") is Mode.READONLY_OVERRIDE


def test_a_key_that_another_registry_wrote_in_another_form_keeps_its_bytes(state: RegistryState) -> None:
    """A tombstone with other bytes would not delete its record."""
    data = b'{"magic":1,"keytype":"SCHEMA","subject":"s","version":1}'
    state.apply(SchemaKey("s", 1), data, version("s", 1, 1))
    assert state.key_bytes(SchemaKey("s", 1)) == data
    assert state.key_bytes(SchemaKey("s", 2)) == encode_key(SchemaKey("s", 2))
