from __future__ import annotations

from headrace.gateway.catalog.build import Known, build
from headrace.gateway.catalog.model import User, UserKind
from headrace.gateway.registry.records import Version
from headrace.schemas.definition import Definition, Reference


def version(subject: str, number: int = 1, *references: Reference) -> Version:
    definition = Definition(text='"int"', references=references)
    return Version(subject=subject, version=number, id=number, definition=definition)


def known(topics: dict[str, int], *versions: Version) -> Known:
    levels = {each.subject: "FULL" for each in versions}
    return Known(
        topics=topics,
        versions=versions,
        levels=levels,
        groups={"g": ["t"]},
        queues={},
        reports=[],
        written={User(UserKind.WEBHOOK_IN, "w"): ["t"]},
        read={},
        problems=["x"],
    )


def test_topics_and_subjects_without_topics_are_event_types() -> None:
    reference = Reference("n", "other", 1)
    catalog = build(
        known(
            {"t": 3, "__x": 1, "_schemas": 1, "headrace.jobs": 1},
            version("t-key"),
            version("t-value", 1),
            version("t-value", 2, reference),
            version("other"),
        )
    )
    assert [(each.name, each.partitions) for each in catalog.event_types] == [("other", None), ("t", 3)]
    value, key = catalog.event_types[1].schemas
    assert (value.part, value.version, value.versions, value.compatibility) == ("value", 2, (1, 2), "FULL")
    assert (value.references, key.part) == ((reference,), "key")
    assert [str(each) for each in catalog.event_types[1].read_by] == ["group g"]
    assert [str(each) for each in catalog.event_types[1].written_by] == ["webhook in w"]
    assert catalog.problems == ("x",)
