"""The bounds of a registry."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLimits:
    schema_bytes_max: int = setting(
        900_000,
        minimum=1,
        doc="Bytes of a schema. With its references it has to fit a record of a topic, which has up to 1 MiB.",
    )
    references_max: int = setting(
        200,
        minimum=0,
        doc="References of a schema. Each is read and parsed when the schema is.",
    )
    versions_max: int = setting(
        100_000,
        minimum=1,
        doc="Versions of all subjects. All are in memory, and a list without `limit` has all of them.",
    )
    subject_chars_max: int = setting(
        1_000, minimum=1, doc="Characters of a subject, which is a part of addresses and of keys."
    )
