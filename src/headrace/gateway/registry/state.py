"""What the records of the topic say. It changes only by applying them, in their order; so all gateways agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from headrace.gateway.registry import identities
from headrace.gateway.registry.identities import Identity
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
from headrace.schemas.definition import Definition
from headrace.schemas.levels import Compatibility

DEFAULT_COMPATIBILITY = Compatibility.BACKWARD
DEFAULT_MODE = Mode.READWRITE


class RegistryState:
    def __init__(self) -> None:
        self.greatest_id = 0
        self.versions_count = 0
        self.compatibilities: dict[str | None, Compatibility] = {}
        """None is the global one."""
        self.modes: dict[str | None, Mode] = {}
        self._subjects: dict[str, dict[int, Version]] = {}
        self._by_id: dict[int, dict[SchemaKey, Version]] = {}
        self._ids: dict[Identity, int] = {}
        self._referrers: dict[SchemaKey, set[SchemaKey]] = {}
        self._keys: dict[Key, bytes] = {}
        """Keys that another registry has written in another form. Their records would outlive a tombstone of ours."""

    # Changing

    def apply(self, key: Key, key_bytes: bytes, value: Value | None) -> None:
        if key_bytes != encode_key(key):
            self._keys[key] = key_bytes
        match key, value:
            case SchemaKey(), Version():
                self._remove(key)
                self._add(replace(value, subject=key.subject, version=key.version))
            case SchemaKey(), None:
                self._remove(key)
            case DeleteSubjectKey(subject), DeletedSubject(last):
                for version in self.versions(subject, deleted=False):
                    if version.version <= last:
                        self._add(replace(version, is_deleted=True))
            case ConfigKey(subject), Compatibility():
                self.compatibilities[subject] = value
            case ConfigKey(subject), None:
                self.compatibilities.pop(subject, None)
            case ModeKey(subject), Mode():
                self.modes[subject] = value
            case ModeKey(subject), None:
                self.modes.pop(subject, None)
            case NoopKey(), GreatestId(number):
                self.greatest_id = max(self.greatest_id, number)

    def learn(self, identity: Identity, schema_id: int) -> None:
        """A schema was parsed, so that it is found in whatever form it is written. An earlier id stays."""
        self._ids.setdefault(identity, schema_id)

    def _add(self, version: Version) -> None:
        key = SchemaKey(version.subject, version.version)
        versions = self._subjects.setdefault(version.subject, {})
        self.versions_count += version.version not in versions
        versions[version.version] = version
        self._by_id.setdefault(version.id, {})[key] = version
        self._ids.setdefault(identities.of_text(version.definition, version.extra), version.id)
        self.greatest_id = max(self.greatest_id, version.id)
        for each in version.definition.references:
            self._referrers.setdefault(SchemaKey(each.subject, each.version), set()).add(key)

    def _remove(self, key: SchemaKey) -> None:
        """The identity keeps its id: the same schema gets it again."""
        version = self._subjects.get(key.subject, {}).pop(key.version, None)
        if version is None:
            return
        self.versions_count -= 1
        if not self._subjects[key.subject]:
            del self._subjects[key.subject]
        del self._by_id[version.id][key]
        if not self._by_id[version.id]:
            del self._by_id[version.id]
        for each in version.definition.references:
            self._referrers[SchemaKey(each.subject, each.version)].discard(key)

    # Reading

    def key_bytes(self, key: Key) -> bytes:
        return self._keys.get(key) or encode_key(key)

    def subjects(self, *, deleted: bool) -> list[str]:
        """With a version that is not deleted, or, with `deleted`, all."""
        return sorted(each for each in self._subjects if deleted or self.versions(each, deleted=False))

    def versions(self, subject: str, *, deleted: bool) -> list[Version]:
        """In ascending order; with `deleted`, the soft-deleted ones too."""
        found = self._subjects.get(subject, {})
        return [found[number] for number in sorted(found) if deleted or not found[number].is_deleted]

    def version(self, subject: str, number: int, *, deleted: bool) -> Version | None:
        found = self._subjects.get(subject, {}).get(number)
        return None if found is None or (found.is_deleted and not deleted) else found

    def all_versions(self, *, deleted: bool) -> Iterator[Version]:
        for subject in sorted(self._subjects):
            yield from self.versions(subject, deleted=deleted)

    def of_id(self, schema_id: int, *, deleted: bool) -> list[Version]:
        found = self._by_id.get(schema_id, {}).values()
        return sorted(
            (each for each in found if deleted or not each.is_deleted),
            key=lambda each: (each.subject, each.version),
        )

    def id_of(self, wanted: Iterable[Identity]) -> int | None:
        return next((self._ids[each] for each in wanted if each in self._ids), None)

    def next_version(self, subject: str) -> int:
        """Deleted versions keep their numbers."""
        return max(self._subjects.get(subject, {}), default=0) + 1

    def referrers(self, subject: str, number: int, *, deleted: bool) -> list[Version]:
        """The versions that refer to this one; with `deleted`, the soft-deleted ones too."""
        found = self._referrers.get(SchemaKey(subject, number), ())
        versions = [self._subjects[each.subject][each.version] for each in found]
        return [each for each in versions if deleted or not each.is_deleted]

    def compatibility(self, subject: str) -> Compatibility:
        fallback = self.compatibilities.get(None, DEFAULT_COMPATIBILITY)
        return self.compatibilities.get(subject, fallback)

    def mode(self, subject: str) -> Mode:
        fallback = self.modes.get(None, DEFAULT_MODE)
        if fallback is Mode.READONLY_OVERRIDE:
            return fallback
        return self.modes.get(subject, fallback)

    def definition(self, schema_id: int) -> tuple[Definition, dict[str, Any]] | None:
        for version in self._by_id.get(schema_id, {}).values():
            return version.definition, version.extra
        return None
