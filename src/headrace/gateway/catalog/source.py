"""What the cluster and the registry know, read within bounds. What cannot be read is a problem in the catalogue."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from headrace.clock import Clock
from headrace.errors import HeadraceError
from headrace.gateway.catalog.build import Known, build
from headrace.gateway.catalog.definitions import Definitions
from headrace.gateway.catalog.fields import FIELDS_MAX, fields_of
from headrace.gateway.catalog.jobs import JOBS_TOPIC, Report, last_reports
from headrace.gateway.catalog.model import Catalog, EventSchema, EventType
from headrace.gateway.registry.other import OtherRegistry
from headrace.gateway.registry.records import Version
from headrace.gateway.registry.registry import Registry
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from headrace.kafka.errors import no_such_topic
from headrace.kafka.share_groups import describe_share_group, list_share_groups

GROUPS_MAX = 2_000
"""Each is a request to the broker."""

QUEUES_MAX = 100
"""Each is three requests on two connections."""

REPORTS_MAX = 5_000
"""The newest reports of jobs: half an hour of a few hundred jobs. Of a job that stopped before, only what it read is
known."""

REMEMBERED_MS = 5_000
"""Many people who open the page must not become as many requests to the broker."""

T = TypeVar("T")

Topics = Mapping[str, Sequence[str]]
"""By group or queue."""


class _Remembered(Struct, frozen=True):
    catalog: Catalog
    at_ms: int


class CatalogSource:
    """`registry` is None if there is none; then no schemas are known. Threads may share it."""

    def __init__(
        self,
        cluster: Cluster,
        registry: Registry | OtherRegistry | None,
        clock: Clock,
        definitions: Definitions | None = None,
    ) -> None:
        """Without `definitions`, webhooks in and alerts are unknown."""
        self._cluster = cluster
        self._definitions = definitions
        self._registry = registry
        self._clock = clock
        self._lock = threading.Lock()
        self._remembered: _Remembered | None = None

    def catalog(self) -> Catalog:
        """At most `REMEMBERED_MS` old."""
        with self._lock:
            now_ms = self._clock.now_ms()
            if self._remembered is None or now_ms - self._remembered.at_ms > REMEMBERED_MS:
                self._remembered = _Remembered(build(self._known()), now_ms)
            return self._remembered.catalog

    def event_type(self, name: str) -> EventType:
        """With the fields of its schemas."""
        known = {each.name: each for each in self.catalog().event_types}
        if name not in known:
            raise no_such_topic(name, known)
        found = known[name]
        return replace(found, schemas=tuple(self._with_fields(each) for each in found.schemas))

    def _with_fields(self, schema: EventSchema) -> EventSchema:
        if self._registry is None:
            return schema
        try:
            version = self._registry.version(schema.subject, str(schema.version))
            fields = fields_of(self._registry.parsed(version))
        except HeadraceError as error:
            return replace(schema, problem=error.message)
        problem = f"only the first {FIELDS_MAX:,} fields are here" if len(fields) == FIELDS_MAX else None
        return replace(schema, fields=fields, problem=problem)

    def _known(self) -> Known:
        problems: list[str] = []
        topics = {name: len(partitions) for name, partitions in self._cluster.topics().items()}

        def attempt(what: str, read: Callable[[], T], otherwise: T) -> T:
            try:
                return read()
            except HeadraceError as error:
                problems.append(f"{what} are missing: {error.message}")
                return otherwise

        versions: list[Version] = attempt("schemas", self._versions, [])
        groups: Topics = attempt("consumer groups", lambda: self._groups(problems), {})
        queues: Topics = attempt("queues", lambda: self._queues(problems), {})
        reports: list[Report] = attempt("jobs", lambda: self._reports(topics), [])
        return Known(
            topics=topics,
            versions=versions,
            levels=attempt("compatibility levels", lambda: self._levels(versions), {}),
            groups=groups,
            queues=queues,
            reports=reports,
            written=self._definitions.writers(problems) if self._definitions else {},
            read=self._definitions.readers(problems) if self._definitions else {},
            problems=problems,
        )

    def _versions(self) -> list[Version]:
        return [] if self._registry is None else self._registry.all_versions(deleted=False)

    def _levels(self, versions: Sequence[Version]) -> dict[str, str]:
        registry = self._registry
        if registry is None:
            return {}
        subjects = {each.subject for each in versions}
        return {each: registry.compatibility(each, default_to_global=True) for each in subjects}

    def _groups(self, problems: list[str]) -> Topics:
        names = [name for name, _ in self._cluster.groups()]
        _note_excess(problems, names, GROUPS_MAX, "consumer groups")
        committed = self._cluster.committed_of(names[:GROUPS_MAX])
        return {group: sorted({each.topic for each in found}) for group, found in committed.items()}

    def _queues(self, problems: list[str]) -> Topics:
        brokers = self._cluster.brokers()
        names = [name for name, _ in list_share_groups(brokers, self._cluster.timeout_s)]
        _note_excess(problems, names, QUEUES_MAX, "queues")
        found: dict[str, Sequence[str]] = {}
        for name in names[:QUEUES_MAX]:
            with contextlib.suppress(HeadraceError):  # it was deleted meanwhile
                described = describe_share_group(brokers[0], name, self._cluster.timeout_s)
                found[name] = sorted({each.topic for each in described.partitions})
        return found

    def _reports(self, topics: Mapping[str, int]) -> list[Report]:
        if JOBS_TOPIC not in topics:
            return []
        return last_reports(
            value
            for each in read_committed(self._cluster, JOBS_TOPIC, newest=REPORTS_MAX)
            if isinstance(value := each.value(), bytes)
        )


def _note_excess(problems: list[str], names: Sequence[str], bound: int, what: str) -> None:
    if len(names) > bound:
        problems.append(f"only {bound:,} of {len(names):,} {what} are here")
