"""How the state of an erasure follows from its topics and places, and what is kept of it at the end."""

from __future__ import annotations

import msgspec
import pytest

from headrace.erasure import (
    Erasure,
    ErasureState,
    Match,
    PlaceProgress,
    Subject,
    TopicProgress,
    TopicState,
    digest_of,
)

SUBJECT = Subject(key="ada", matches=(Match.parse("user=ada"),))


def erasure(*states: TopicState, places: tuple[PlaceProgress, ...] = ()) -> Erasure:
    return Erasure(
        id="e1",
        subject=SUBJECT,
        digest=digest_of("e1", SUBJECT),
        requested_ms=1,
        topics=tuple(TopicProgress(topic=f"t{number}", state=state) for number, state in enumerate(states)),
        places=places,
    )


@pytest.mark.parametrize(
    ("states", "state"),
    [
        ([TopicState.COMPLETE, TopicState.PENDING], ErasureState.OPEN),
        ([TopicState.COMPACTING, TopicState.KEPT], ErasureState.OPEN),
        ([TopicState.COMPLETE, TopicState.RETENTION], ErasureState.WAITING),
        ([TopicState.KEPT], ErasureState.WAITING),
        ([TopicState.COMPLETE, TopicState.COMPLETE], ErasureState.COMPLETE),
    ],
)
def test_state_is_that_of_the_topic_with_the_most_to_do(
    states: list[TopicState], state: ErasureState
) -> None:
    assert erasure(*states).state is state


def test_place_that_is_not_erased_keeps_it_open() -> None:
    place = PlaceProgress(name="p")
    waiting = erasure(TopicState.COMPLETE, places=(place,))
    assert waiting.state is ErasureState.OPEN
    assert waiting.with_place(PlaceProgress(name="p", left=0, complete_ms=5)).state is ErasureState.COMPLETE


def test_complete_erasure_has_no_key_and_can_be_found_by_its_digest() -> None:
    closed = erasure(TopicState.COMPLETE).closed(9)
    assert closed.complete_ms == 9
    assert closed.digest == digest_of("e1", SUBJECT)
    assert b"ada" not in msgspec.json.encode(closed)
    assert erasure(TopicState.KEPT).closed(9).subject == SUBJECT


def test_ledger_reads_what_it_wrote() -> None:
    written = erasure(TopicState.COMPACTING).with_topic(
        TopicProgress(topic="t0", verified={"0": (1, 2)}, settings={"segment.ms": None})
    )
    assert msgspec.json.decode(msgspec.json.encode(written), type=Erasure) == written
