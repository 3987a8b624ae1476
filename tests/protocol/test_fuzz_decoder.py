from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.protocol.decoding import CHOICE_BYTES, DECODERS, check, seeds

EXAMPLES = int(os.environ.get("HEADRACE_TEST_FUZZ_EXAMPLES", "2000"))
"""`make fuzz` uses many more."""

SEEDS = list(seeds())

fuzzing = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

hostile_bytes = st.sampled_from([b"\0", b"\x7f", b"\x80", b"\xff", b"\xff\xff\xff\xff\x0f"]) | st.binary(
    max_size=3
)
changes = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 20), hostile_bytes), min_size=1, max_size=5)


@pytest.mark.fuzz
@fuzzing
@given(st.integers(0, len(DECODERS) - 1), st.binary(max_size=100))
def test_random_bytes_are_a_message_or_malformed(choice: int, body: bytes) -> None:
    check(choice.to_bytes(CHOICE_BYTES, "big") + body)


@pytest.mark.fuzz
@fuzzing
@given(st.sampled_from(SEEDS), changes)
def test_messages_with_changes_are_a_message_or_malformed(
    seed: bytes, changes: list[tuple[float, int, bytes]]
) -> None:
    data = bytearray(seed)
    for where, cut_bytes, inserted in changes:
        position = CHOICE_BYTES + int(where * (len(data) - CHOICE_BYTES))
        data[position : position + cut_bytes] = inserted
    check(bytes(data))


def test_every_decoder_accepts_its_seeds() -> None:
    reached = set()
    for seed in SEEDS:
        choice = int.from_bytes(seed[:CHOICE_BYTES], "big")
        DECODERS[choice](seed[CHOICE_BYTES:])
        reached.add(choice)
    assert reached == set(range(len(DECODERS)))
