"""What clients request: the schemas of subjects, their versions, compatibility levels and modes.

Each method is one request of the API. Errors are `RegistryError` with the code of the API.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from msgspec import Struct

from headrace.clock import SystemClock
from headrace.events.errors import EventsError
from headrace.events.records import InRecord
from headrace.gateway.registry import changes, errors, identities
from headrace.gateway.registry.changes import Wanted
from headrace.gateway.registry.errors import RegistryError
from headrace.gateway.registry.limits import RegistryLimits
from headrace.gateway.registry.log import Decision, RegistryLog
from headrace.gateway.registry.records import (
    Mode,
    UnreadableRecord,
    Version,
    decode_key,
    decode_value,
)
from headrace.gateway.registry.resolver import Resolver
from headrace.gateway.registry.state import RegistryState
from headrace.kafka.cluster import Cluster
from headrace.kafka.settings import client_settings
from headrace.schemas.definition import Definition, Reference
from headrace.schemas.errors import InvalidSchema
from headrace.schemas.incompatibility import Incompatibility
from headrace.schemas.levels import Compatibility, first_conflict
from headrace.schemas.parsing import Parsed, incompatibilities
from headrace.schemas.protobuf.parsing import serialized

TOPIC = "_schemas"
"""The default of Confluent's registry, and of Karapace."""

TIMEOUT_S = 30.0
"""How long a broker may be unavailable, such as during a restart, before a write fails."""

VERSION_MAX = 2**31 - 1

logger = logging.getLogger("headrace.gateway")

T = TypeVar("T")


class Candidate(Struct, frozen=True):
    """A schema that is compared: a version, or the new one with the number 0."""

    number: int
    parsed: Parsed


class Conflict(Struct, frozen=True):
    level: Compatibility
    version: int
    reasons: Sequence[Incompatibility]

    def messages(self) -> list[str]:
        found = [f"{each.kind} at {each.path}: {each.detail}" for each in self.reasons]
        return [*found, f"{{oldSchemaVersion: {self.version}}}", f"{{compatibility: '{self.level}'}}"]


class Registry:
    """Threads may share it. `open` reads the topic, and creates it if there is none."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        topic: str = TOPIC,
        limits: RegistryLimits | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.limits = limits or RegistryLimits()
        self._state = RegistryState()
        self._log = RegistryLog(cluster, topic, self._apply, clock=SystemClock(), timeout_s=timeout_s)
        self._resolver = Resolver(self._referenced)

    @classmethod
    def open(cls, bootstrap: str | None = None, **options: Any) -> Self:
        settings = client_settings(bootstrap)
        registry = cls(Cluster(settings.bootstrap, timeout_s=settings.timeout_s), **options)
        registry._log.start()
        return registry

    def close(self) -> None:
        self._log.close()

    # Schemas by id

    def greatest_id(self) -> int:
        return self._read(lambda state: state.greatest_id)

    def of_id(self, schema_id: int, *, deleted: bool = True) -> list[Version]:
        """The versions with this id; empty if there is none."""
        known = self._find(lambda state: state.of_id(schema_id, deleted=True))
        if known is None:
            raise errors.schema_not_found(schema_id)
        return [each for each in known if deleted or not each.is_deleted]

    def has(self, subject: str, schema_id: int) -> bool:
        """Whether a version of the subject has this schema, which somebody may have deleted."""
        with contextlib.suppress(RegistryError):
            return any(each.subject == subject for each in self.of_id(schema_id, deleted=False))
        return False

    # Subjects

    def subjects(self, *, deleted: bool) -> list[str]:
        return self._read(lambda state: state.subjects(deleted=deleted))

    def all_versions(self, *, deleted: bool) -> list[Version]:
        return self._read(lambda state: list(state.all_versions(deleted=deleted)))

    def versions(self, subject: str, *, deleted: bool) -> list[Version]:
        found = self._find(lambda state: state.versions(subject, deleted=deleted))
        if not found:
            raise errors.subject_not_found(subject)
        return found

    def version(self, subject: str, text: str, *, deleted: bool = False) -> Version:
        number = parse_version(text)
        self.versions(subject, deleted=deleted)
        found = self._find(lambda state: changes.find_version(state, subject, number, deleted=deleted))
        if found is None:
            raise errors.version_not_found(text)
        return found

    def latest_with(self, subject: str, properties: Mapping[str, str], *, deleted: bool) -> Version:
        """The latest version whose metadata has these properties."""
        for version in reversed(self.versions(subject, deleted=deleted)):
            if properties.items() <= version.properties.items():
                return version
        raise errors.schema_not_found()

    def referrers(self, subject: str, text: str, *, deleted: bool = False) -> list[Version]:
        version = self.version(subject, text, deleted=True)
        return self._read(lambda state: state.referrers(subject, version.version, deleted=deleted))

    # Registering

    def look_up(self, subject: str, wanted: Wanted, *, deleted: bool) -> Version:
        """The version of the subject that has this schema."""
        versions = self.versions(subject, deleted=deleted)
        wanted = self._pinned(wanted)
        parsed = self._parsed(wanted.definition, strict=False)
        found = self._same(versions, wanted, parsed)
        if found is None:
            raise errors.schema_not_found()
        return found

    def register(self, subject: str, wanted: Wanted, *, normalize: bool) -> Version:
        """The version that has the schema: an earlier one, or a new one."""
        changes.check_limits(subject, wanted, self.limits)
        wanted = self._pinned(wanted)

        def decide() -> Decision[Version]:
            mode, versions = self._read(
                lambda state: (state.mode(subject), state.versions(subject, deleted=False))
            )
            changes.check_mode(subject, mode, wanted)
            parsed = self._parsed(wanted.definition, strict=mode is not Mode.IMPORT)
            if found := self._same(versions, wanted, parsed):
                return Decision((), found)
            if mode is not Mode.IMPORT:
                self._check_compatible(subject, parsed, versions)
            text = parsed.normalized if normalize else parsed.text
            return self._read(
                lambda state: changes.new_version(state, subject, wanted, text, parsed, self.limits)
            )

        version = self._write(decide)
        parsed = self._parsed(version.definition, strict=False)
        self._read(
            lambda state: state.learn(
                identities.of_parsed(version.definition, parsed, version.extra), version.id
            )
        )
        return version

    def conflict(self, subject: str, wanted: Wanted, text: str | None) -> Conflict | None:
        """With one version, or with those that the level of the subject requires."""
        parsed = self._parsed(self._pinned(wanted).definition, strict=True)
        if text is None:
            versions = self._read(lambda state: state.versions(subject, deleted=False))
        else:
            number = parse_version(text)
            found = self._find(lambda state: changes.find_version(state, subject, number, deleted=False))
            if found is None and number is not None:
                raise errors.version_not_found(text)
            versions = [] if found is None else [found]
        return self._conflict(subject, parsed, versions)

    # Deleting

    def delete_version(self, subject: str, text: str, *, permanent: bool) -> int:
        number = parse_version(text)
        return self._write(
            lambda: self._read(
                lambda state: changes.delete_version(state, subject, number, permanent=permanent)
            )
        )

    def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        return self._write(
            lambda: self._read(lambda state: changes.delete_subject(state, subject, permanent=permanent))
        )

    # Compatibility levels and modes; the subject None is the global one

    def compatibility(self, subject: str | None, *, default_to_global: bool = False) -> Compatibility:
        def find(state: RegistryState) -> Compatibility | None:
            if subject is None or default_to_global:
                return state.compatibility(subject or "")
            return state.compatibilities.get(subject)

        found = self._find(find)
        if found is None:
            raise errors.no_subject_compatibility(subject or "")
        return found

    def set_compatibility(self, subject: str | None, text: str | None) -> Compatibility:
        try:
            level = Compatibility((text or "").upper())
        except ValueError:
            raise errors.invalid_compatibility() from None
        if subject is not None:
            changes.check_subject(subject, self.limits)
        return self._write(lambda: self._read(lambda state: changes.set_compatibility(state, subject, level)))

    def delete_compatibility(self, subject: str | None) -> Compatibility:
        """The level that was deleted."""
        return self._write(lambda: self._read(lambda state: changes.delete_compatibility(state, subject)))

    def mode(self, subject: str | None, *, default_to_global: bool = False) -> Mode:
        def find(state: RegistryState) -> Mode | None:
            if subject is None or default_to_global:
                return state.mode(subject or "")
            return state.modes.get(subject)

        found = self._find(find)
        if found is None:
            raise errors.no_subject_mode(subject or "")
        return found

    def set_mode(self, subject: str | None, text: str | None, *, force: bool) -> Mode:
        try:
            mode = Mode((text or "").upper())
        except ValueError:
            raise errors.invalid_mode() from None
        if subject is not None:
            changes.check_subject(subject, self.limits)
        return self._write(
            lambda: self._read(lambda state: changes.set_mode(state, subject, mode, force=force))
        )

    def delete_mode(self, subject: str) -> Mode:
        return self._write(lambda: self._read(lambda state: changes.delete_mode(state, subject)))

    def descriptor(self, version: Version) -> str:
        """Of a Protobuf schema, in base64."""
        return serialized(self.parsed(version).schema)

    def parsed(self, version: Version) -> Parsed:
        """With the schemas that it refers to."""
        return self._parsed(version.definition, strict=False)

    # Inside

    def _apply(self, record: InRecord) -> None:
        try:
            key = decode_key(record.key)
            value = None if record.value is None else decode_value(key, record.value)
        except UnreadableRecord as error:
            logger.warning("%s@%s is skipped: %s", record.topic, record.offset, error)
            return
        self._state.apply(key, record.key or b"", value)

    def _read(self, read: Callable[[RegistryState], T]) -> T:
        try:
            with self._log.reading():
                return read(self._state)
        except EventsError as error:
            raise errors.store_failed(error) from error

    def _find(self, find: Callable[[RegistryState], T | None]) -> T | None:
        """What is not there may have been written by another gateway a moment ago."""
        found = self._read(find)
        if not found:
            try:
                is_moved = self._log.catch_up()
            except EventsError as error:
                raise errors.store_failed(error) from error
            if is_moved:
                found = self._read(find)
        return found or None

    def _write(self, decide: Callable[[], Decision[T]]) -> T:
        try:
            return self._log.write(decide)
        except EventsError as error:
            raise errors.store_failed(error) from error

    def _pinned(self, wanted: Wanted) -> Wanted:
        """A reference to the version -1 is one to the latest version of now."""
        return self._read(lambda state: changes.pin_references(state, wanted))

    def _referenced(self, reference: Reference) -> Version | None:
        return self._read(lambda state: state.version(reference.subject, reference.version, deleted=True))

    def _parsed(self, definition: Definition, *, strict: bool) -> Parsed:
        if not definition.text:
            raise errors.invalid_schema("Empty schema")
        try:
            return self._resolver.parse(definition, strict=strict)
        except InvalidSchema as error:
            raise errors.invalid_schema(
                f"Invalid schema of type {definition.type}, details: {error}"
            ) from error

    def _same(self, versions: Sequence[Version], wanted: Wanted, parsed: Parsed) -> Version | None:
        """The newest version with this schema. One that can't be parsed is not found: it is not valid any more."""
        references = set(wanted.definition.references)
        for version in reversed(versions):
            definition = version.definition
            if definition.type is not parsed.type or version.extra != wanted.extra:
                continue
            if set(definition.references) != references:
                continue
            with contextlib.suppress(InvalidSchema):
                if self._resolver.parse(definition, strict=False).canonical == parsed.canonical:
                    return version
        return None

    def _check_compatible(self, subject: str, parsed: Parsed, versions: Sequence[Version]) -> None:
        conflict = self._conflict(subject, parsed, versions)
        if conflict is not None:
            details = ", ".join(conflict.messages())
            raise errors.incompatible(
                f'Schema being registered is incompatible with an earlier schema for subject "{subject}",'
                f" details: [{details}]"
            )

    def _conflict(self, subject: str, parsed: Parsed, versions: Sequence[Version]) -> Conflict | None:
        level = self._read(lambda state: state.compatibility(subject))
        if level is Compatibility.NONE:
            return None
        wanted = versions if level.is_transitive else versions[-1:]
        candidates = [Candidate(each.version, self._parsed(each.definition, strict=False)) for each in wanted]
        found = first_conflict(
            level,
            Candidate(0, parsed),
            candidates,
            lambda one, two: incompatibilities(one.parsed, two.parsed),
        )
        return None if found is None else Conflict(level, found[0].number, found[1])


def parse_version(text: str) -> int | None:
    """None is the latest one."""
    if text in ("latest", "-1"):
        return None
    if not text.isdecimal() or not text.isascii() or not 1 <= int(text[:12]) <= VERSION_MAX:
        raise errors.invalid_version(text)
    return int(text)
