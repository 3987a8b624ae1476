"""Erasure: remove a person's data from topics and from the copies of their rows, and prove it.

    from headrace.erasure import Eraser, Subject

    with Eraser.connect() as eraser:
        request = eraser.request(Subject(key="ada"), ["users"])
        print(eraser.work(request.id, wait_s=600).state)

`headrace erase` is its command. It uses the broker over the wire, Headrace's or Apache Kafka. A `Place` is anything
else that has rows of a topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.exports import lazy_exports

if TYPE_CHECKING:
    from headrace.erasure.eraser import Eraser
    from headrace.erasure.errors import BadErasure, ErasureInterrupted
    from headrace.erasure.ledger import LEDGER_TOPIC, chosen, read_ledger
    from headrace.erasure.place import Place
    from headrace.erasure.places.addresses import place_at
    from headrace.erasure.places.person_keys import PersonKeys
    from headrace.erasure.progress import (
        Erasure,
        ErasureState,
        PlaceProgress,
        TopicProgress,
        TopicState,
        digest_of,
    )
    from headrace.erasure.subject import Match, Subject
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "eraser": ("Eraser",),
            "errors": ("BadErasure", "ErasureInterrupted"),
            "ledger": ("LEDGER_TOPIC", "chosen", "read_ledger"),
            "place": ("Place",),
            "places.addresses": ("place_at",),
            "places.person_keys": ("PersonKeys",),
            "progress": (
                "Erasure",
                "ErasureState",
                "PlaceProgress",
                "TopicProgress",
                "TopicState",
                "digest_of",
            ),
            "subject": ("Match", "Subject"),
        },
    )

__all__ = [
    "LEDGER_TOPIC",
    "BadErasure",
    "Eraser",
    "Erasure",
    "ErasureInterrupted",
    "ErasureState",
    "Match",
    "PersonKeys",
    "Place",
    "PlaceProgress",
    "Subject",
    "TopicProgress",
    "TopicState",
    "chosen",
    "digest_of",
    "place_at",
    "read_ledger",
]
