"""What is known of the cluster and the registry -> the catalogue. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from headrace.gateway.catalog.jobs import Report
from headrace.gateway.catalog.model import Catalog, EventSchema, EventType, User
from headrace.gateway.catalog.subjects import Part, description_of, latest_by_subject, place_of
from headrace.gateway.catalog.users import Users, users_of
from headrace.gateway.registry.records import Version

_INTERNAL_PREFIXES = ("__", "_schemas", "headrace.")
_ORDER: dict[Part, int] = {"value": 0, "record": 1, "key": 2}


class Known(Struct, frozen=True, kw_only=True):
    topics: Mapping[str, int]
    """Their numbers of partitions."""
    versions: Sequence[Version]
    """Those that are not deleted."""
    levels: Mapping[str, str]
    """The compatibility level of each subject."""
    groups: Mapping[str, Sequence[str]]
    """The topics that each group has committed offsets of."""
    queues: Mapping[str, Sequence[str]]
    reports: Sequence[Report]
    written: Mapping[User, Sequence[str]]
    """The topics that those write which are defined on this machine."""
    read: Mapping[User, Sequence[str]]
    problems: Sequence[str]


def build(known: Known) -> Catalog:
    users = users_of(
        known.topics,
        groups=known.groups,
        queues=known.queues,
        reports=known.reports,
        written=known.written,
        read=known.read,
    )
    subjects = latest_by_subject(known.versions)
    by_name: dict[str, list[tuple[Part, str]]] = {
        topic: [] for topic in known.topics if not topic.startswith(_INTERNAL_PREFIXES)
    }
    for subject in subjects:
        place = place_of(subject, known.topics)
        by_name.setdefault(place.name, []).append((place.part, subject))
    found = [
        _event_type(
            name, [(part, subjects[subject]) for part, subject in sorted(parts, key=_order)], known, users
        )
        for name, parts in sorted(by_name.items())
    ]
    return Catalog(event_types=tuple(found), problems=tuple(known.problems))


def _order(place: tuple[Part, str]) -> tuple[int, str]:
    part, subject = place
    return _ORDER[part], subject


def _event_type(
    name: str, subjects: Sequence[tuple[Part, Sequence[Version]]], known: Known, users: Users
) -> EventType:
    description = description_of(versions[-1] for _, versions in subjects)
    return EventType(
        name=name,
        partitions=known.topics.get(name),
        owner=description.owner,
        contact=description.contact,
        description=description.text,
        schemas=tuple(_schema(part, versions, known) for part, versions in subjects),
        written_by=tuple(users.writers.get(name, ())),
        read_by=tuple(users.readers.get(name, ())),
    )


def _schema(part: Part, versions: Sequence[Version], known: Known) -> EventSchema:
    latest = versions[-1]
    return EventSchema(
        subject=latest.subject,
        part=part,
        type=latest.definition.type,
        id=latest.id,
        version=latest.version,
        versions=tuple(each.version for each in versions),
        compatibility=known.levels.get(latest.subject, ""),
        references=latest.definition.references,
    )
