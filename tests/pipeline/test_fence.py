"""The fence: its text in a target, and which batches it covers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.errors import BadJob
from headrace.pipeline.fence import Fence

OFFSETS = ('{"clicks":{"0":7}}', "-")

fences = st.builds(
    Fence,
    job=st.text(max_size=10),
    checkpoint=st.text(max_size=10),
    batch_id=st.integers(0, 2**63 - 1),
    starts=st.lists(st.text(max_size=10), max_size=3).map(tuple),
    ends=st.lists(st.text(max_size=10), max_size=3).map(tuple),
)


def fence(checkpoint: str = "one", batch_id: int = 7) -> Fence:
    return Fence(job="j", checkpoint=checkpoint, batch_id=batch_id, starts=OFFSETS, ends=OFFSETS)


@given(fences)
def test_text_of_a_fence_is_read_back(written: Fence) -> None:
    assert Fence.from_json(written.to_json()) == written


def test_text_of_a_fence_is_compact_json_with_these_fields() -> None:
    text = fence().to_json()
    assert text == json.dumps(json.loads(text), separators=(",", ":"))
    assert json.loads(text) == {
        "job": "j",
        "checkpoint": "one",
        "batch": 7,
        "starts": list(OFFSETS),
        "ends": list(OFFSETS),
    }


def test_fields_that_a_writer_keeps_beside_the_fence_are_ignored() -> None:
    text = json.dumps({**json.loads(fence().to_json()), "marks": {"0": 3}})
    assert Fence.from_json(text) == fence()


@pytest.mark.parametrize(
    "text", ["", "another program", "[]", "{}", '{"job":"j","checkpoint":"one","batch":"x"}']
)
def test_text_of_another_program_is_rejected_with_a_remedy(text: str) -> None:
    with pytest.raises(BadJob, match="not a fence") as rejected:
        Fence.from_json(text)
    assert "give the job another name" in rejected.value.hint


@pytest.mark.parametrize(
    ("other", "is_covered"),
    [(fence(batch_id=6), True), (fence(), True), (fence(batch_id=8), False), (fence("two", 6), False)],
)
def test_fence_covers_the_batches_up_to_its_own_of_one_checkpoint(other: Fence, is_covered: bool) -> None:
    assert fence().covers(other) is is_covered
