"""Manifests: their text in checkpoints, and which of them a step accepts."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError
from headrace.operators.state.manifest import Manifest

FULL = Manifest(version=2, buckets=32, runs=("a1", "b2"), timer_ms=5_000, owner="tumbling 1f2e3d4c")
TEXT = '{"format":1,"version":2,"buckets":32,"runs":["a1","b2"],"timer":5000,"owner":"tumbling 1f2e3d4c"}'


def test_the_text_of_a_manifest_stays_the_same() -> None:
    """Checkpoints have it."""
    assert FULL.to_json() == TEXT
    assert Manifest.from_json(TEXT) == FULL
    empty = '{"format":1,"version":1,"buckets":4,"runs":[],"timer":null,"owner":""}'
    assert Manifest(version=1, buckets=4).to_json() == empty


def test_a_manifest_without_an_owner_is_read() -> None:
    text = '{"format":1,"version":1,"buckets":4,"runs":["a1"],"timer":null}'
    assert Manifest.from_json(text) == Manifest(version=1, buckets=4, runs=("a1",))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"format":2}', "state format 2 is newer than the supported format 1"),
        ('{"format":1,"version":1}', "not a state of Headrace"),
        ('{"format":1,"version":"x","buckets":4,"runs":[],"timer":null}', "not a state of Headrace"),
        ("[]", "not a state of Headrace"),
        ("gibberish", "not a state of Headrace: 'gibberish'"),
    ],
)
def test_an_unreadable_manifest_is_rejected(text: str, problem: str) -> None:
    with pytest.raises(HeadraceError, match=problem) as rejected:
        Manifest.from_json(text)
    assert rejected.value.hint


def test_a_step_accepts_its_own_state_and_that_of_an_earlier_version() -> None:
    FULL.check(version=2, buckets=32, owner="tumbling 1f2e3d4c")
    FULL.check(version=3, buckets=32, owner="tumbling 1f2e3d4c")
    FULL.check(version=2, buckets=32)
    Manifest(version=1, buckets=32).check(version=1, buckets=32, owner="session 00000000")


@pytest.mark.parametrize(
    ("version", "buckets", "owner", "problem"),
    [
        (2, 32, "session 00000000", "written by `tumbling 1f2e3d4c`"),
        (2, 16, "tumbling 1f2e3d4c", "has 32 buckets, and the session is set to 16"),
        (1, 32, "tumbling 1f2e3d4c", "state version 2 is newer than the supported version 1"),
    ],
)
def test_state_of_another_operator_layout_or_version_is_rejected(
    version: int, buckets: int, owner: str, problem: str
) -> None:
    with pytest.raises(HeadraceError, match=problem) as rejected:
        FULL.check(version=version, buckets=buckets, owner=owner)
    assert rejected.value.hint
