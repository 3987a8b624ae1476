from __future__ import annotations

from headrace.gateway.catalog.model import Catalog, EventType


def event_type(name: str, owner: str | None = None, description: str | None = None) -> EventType:
    return EventType(
        name=name,
        partitions=1,
        owner=owner,
        contact=None,
        description=description,
        schemas=(),
        written_by=(),
        read_by=(),
    )


def test_a_search_finds_event_types_with_each_word() -> None:
    orders = event_type("orders", owner="Team Shop", description="placed orders")
    catalog = Catalog(event_types=(orders, event_type("clicks", owner="Team Web")), problems=())
    assert catalog.found("shop PLACED") == (orders,)
    assert catalog.found("shop web") == ()
    assert catalog.found("") == catalog.event_types
