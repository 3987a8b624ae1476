"""What each write changes: from the state, the records to write and the result. Nothing is written here."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from headrace.gateway.registry import errors, identities
from headrace.gateway.registry.limits import RegistryLimits
from headrace.gateway.registry.log import Change, Decision
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
    encode_value,
)
from headrace.gateway.registry.state import RegistryState
from headrace.schemas.definition import Definition, Reference
from headrace.schemas.levels import Compatibility
from headrace.schemas.parsing import Parsed

LATEST = -1
"""The version of a reference to whatever is the latest one when the schema is registered."""


class Wanted(Struct, frozen=True, kw_only=True):
    """A schema that a client sends. `id` and `version` are for imports."""

    definition: Definition
    extra: dict[str, Any] = {}
    id: int | None = None
    version: int | None = None


def check_limits(subject: str, wanted: Wanted, limits: RegistryLimits) -> None:
    definition = wanted.definition
    if len(definition.text) > limits.schema_bytes_max or (
        len(definition.text.encode(errors="replace")) > limits.schema_bytes_max
    ):
        raise errors.invalid_schema(f"the schema has more than {limits.schema_bytes_max:,} bytes")
    if len(definition.references) > limits.references_max:
        raise errors.invalid_schema(f"the schema has more than {limits.references_max} references")
    check_subject(subject, limits)


def check_subject(subject: str, limits: RegistryLimits) -> None:
    if not 0 < len(subject) <= limits.subject_chars_max:
        raise errors.invalid_subject(f"a subject has 1 to {limits.subject_chars_max:,} characters")
    if any(unicodedata.category(each) in ("Cc", "Cs") for each in subject):
        raise errors.invalid_subject("a subject has no control characters")


def pin_references(state: RegistryState, wanted: Wanted) -> Wanted:
    """With numbers instead of -1, which stands for the latest version."""

    def pinned(reference: Reference) -> Reference:
        latest = find_version(state, reference.subject, None, deleted=False)
        if reference.version != LATEST or latest is None:
            return reference
        return replace(reference, version=latest.version)

    references = tuple(pinned(each) for each in wanted.definition.references)
    return replace(wanted, definition=replace(wanted.definition, references=references))


def check_mode(subject: str, mode: Mode, wanted: Wanted) -> None:
    if mode in (Mode.READONLY, Mode.READONLY_OVERRIDE):
        raise errors.not_permitted(f"Subject {subject} is in read-only mode")
    if mode is Mode.IMPORT and wanted.id is None:
        raise errors.not_permitted(f"Subject {subject} is in import mode")
    if mode is not Mode.IMPORT and wanted.id is not None:
        raise errors.not_permitted(f"Subject {subject} is not in import mode")


def new_version(
    state: RegistryState, subject: str, wanted: Wanted, text: str, parsed: Parsed, limits: RegistryLimits
) -> Decision[Version]:
    """A schema that has an id keeps it, and its text."""
    if state.versions_count >= limits.versions_max:
        raise errors.not_permitted(
            f"the registry has {state.versions_count:,} versions, as many as it may have"
        )
    definition = replace(wanted.definition, text=text)
    known = state.id_of(
        [
            identities.of_text(wanted.definition, wanted.extra),
            identities.of_text(definition, wanted.extra),
            identities.of_parsed(definition, parsed, wanted.extra),
        ]
    )
    if wanted.id is not None:
        _check_import(state, wanted.id, known)
        known = wanted.id
    elif known is not None and (registered := state.definition(known)) is not None:
        definition = registered[0]
    version = Version(
        subject=subject,
        version=wanted.version or state.next_version(subject),
        id=state.greatest_id + 1 if known is None else known,
        definition=definition,
        extra=wanted.extra,
    )
    return Decision([_change(state, SchemaKey(subject, version.version), version)], version)


def find_version(state: RegistryState, subject: str, number: int | None, *, deleted: bool) -> Version | None:
    """None is the latest one."""
    if number is not None:
        return state.version(subject, number, deleted=deleted)
    return next(reversed(state.versions(subject, deleted=deleted)), None)


def delete_version(
    state: RegistryState, subject: str, number: int | None, *, permanent: bool
) -> Decision[int]:
    _check_writable(state, subject)
    if not state.versions(subject, deleted=True):
        raise errors.subject_not_found(subject)
    version = find_version(state, subject, number, deleted=permanent or number is not None)
    if version is None:
        if number is None:
            raise errors.subject_not_found(subject)
        raise errors.version_not_found(number)
    if version.is_deleted and not permanent:
        raise errors.version_soft_deleted(subject, version.version)
    if permanent and not version.is_deleted:
        raise errors.version_not_soft_deleted(subject, version.version)
    _check_not_referenced(state, [version], permanent=permanent)
    key = SchemaKey(subject, version.version)
    if permanent:
        return Decision([*_kept_id(state, [version]), _change(state, key, None)], version.version)
    changes = [_change(state, key, replace(version, is_deleted=True))]
    if len(state.versions(subject, deleted=False)) == 1:
        changes += _settings_of(state, subject)
    return Decision(changes, version.version)


def delete_subject(state: RegistryState, subject: str, *, permanent: bool) -> Decision[list[int]]:
    _check_writable(state, subject)
    versions = state.versions(subject, deleted=True)
    if not versions:
        raise errors.subject_not_found(subject)
    live = [each for each in versions if not each.is_deleted]
    if permanent and live:
        raise errors.subject_not_soft_deleted(subject)
    if not permanent and not live:
        raise errors.subject_soft_deleted(subject)
    if permanent:
        _check_not_referenced(state, versions, permanent=True)
        tombstones = [_change(state, SchemaKey(subject, each.version), None) for each in versions]
        marker = _change(state, DeleteSubjectKey(subject), None)
        numbers = [each.version for each in versions]
        return Decision([*_kept_id(state, versions), *tombstones, marker], numbers)
    _check_not_referenced(state, live, permanent=False)
    value = encode_value(DeletedSubject(live[-1].version), subject)
    marker = Change(state.key_bytes(DeleteSubjectKey(subject)), value)
    return Decision([marker, *_settings_of(state, subject)], [each.version for each in live])


def set_compatibility(
    state: RegistryState, subject: str | None, level: Compatibility
) -> Decision[Compatibility]:
    _check_writable(state, subject or "")
    return Decision([_change(state, ConfigKey(subject), level)], level)


def delete_compatibility(state: RegistryState, subject: str | None) -> Decision[Compatibility]:
    _check_writable(state, subject or "")
    found = state.compatibilities.get(subject)
    if found is None:
        if subject is not None:
            raise errors.subject_not_found(subject)
        return Decision((), state.compatibility(""))
    return Decision([_change(state, ConfigKey(subject), None)], found)


def set_mode(state: RegistryState, subject: str | None, mode: Mode, *, force: bool) -> Decision[Mode]:
    """Imported schemas bring their ids, which must be free."""
    is_changed = (state.modes.get(subject) or state.mode(subject or "")) is not mode
    if mode is Mode.IMPORT and is_changed and not force:
        found = state.subjects(deleted=True) if subject is None else state.versions(subject, deleted=True)
        if found:
            raise errors.not_permitted("Cannot import since found existing subjects")
    return Decision([_change(state, ModeKey(subject), mode)], mode)


def delete_mode(state: RegistryState, subject: str) -> Decision[Mode]:
    found = state.modes.get(subject)
    if found is None:
        raise errors.subject_not_found(subject)
    return Decision([_change(state, ModeKey(subject), None)], found)


def _change(state: RegistryState, key: Key, value: Value | None) -> Change:
    return Change(state.key_bytes(key), None if value is None else encode_value(value))


def _settings_of(state: RegistryState, subject: str) -> list[Change]:
    """They are deleted with the last version of a subject."""
    keys: list[Key] = []
    if subject in state.compatibilities:
        keys.append(ConfigKey(subject))
    if subject in state.modes:
        keys.append(ModeKey(subject))
    return [_change(state, key, None) for key in keys]


def _kept_id(state: RegistryState, versions: Iterable[Version]) -> list[Change]:
    """The greatest id is known from the records that remain, so it is written before its last record goes."""
    if all(each.id != state.greatest_id for each in versions):
        return []
    return [_change(state, NoopKey(), GreatestId(state.greatest_id))]


def _check_writable(state: RegistryState, subject: str) -> None:
    if state.mode(subject) in (Mode.READONLY, Mode.READONLY_OVERRIDE):
        raise errors.not_permitted(f"Subject {subject} is in read-only mode")


def _check_not_referenced(state: RegistryState, versions: Sequence[Version], *, permanent: bool) -> None:
    """References within what is deleted do not count. Records may still have the id of a soft-deleted schema, so what
    that refers to must remain readable."""
    own = {SchemaKey(each.subject, each.version) for each in versions}
    for version in versions:
        referrers = state.referrers(version.subject, version.version, deleted=permanent)
        if any(SchemaKey(each.subject, each.version) not in own for each in referrers):
            raise errors.referenced(
                "One or more references exist to the schema "
                f"{{magic=1,keytype=SCHEMA,subject={version.subject},version={version.version}}}."
            )


def _check_import(state: RegistryState, wanted: int, known: int | None) -> None:
    if known != wanted and state.definition(wanted) is not None:
        raise errors.not_permitted(f"Overwrite new schema with id {wanted} is not permitted.")
