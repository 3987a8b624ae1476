"""The schema registry: the API of Confluent's registry, kept in a compacted topic in the format of that registry.

records      the records of the topic: keys and values
state        what the records say; changes only by applying them
log          follows the topic, and writes to it as its only writer
identities   which schemas are the same
registry     what clients request: registering, looking up, deleting, configuring
routes       the same over HTTP; settings_routes those of levels and modes; exchange what they share; description how
             OpenAPI shows them
other        another registry, over its HTTP API, which the gateway uses instead

Any number of gateways may serve the same topic. Each reads all of it. To write, a gateway opens a transactional
producer whose id is that of the topic: this fences the gateway that wrote before, which takes the topic back for its
next write. Between, it reads to the end of the topic and decides again; so no id is assigned twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.exports import lazy_exports

if TYPE_CHECKING:
    from headrace.gateway.registry.registry import Registry
    from headrace.gateway.registry.routes import create_router
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "registry": ("Registry",),
            "routes": ("create_router",),
        },
    )

__all__ = [
    "Registry",
    "create_router",
]
