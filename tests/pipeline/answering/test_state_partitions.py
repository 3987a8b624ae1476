"""The state of a job after its last committed batch, partition by partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.pipeline.answering import state_partitions
from headrace.questions.errors import BadQuestion
from tests.pipeline.answering.copied_state import CopiedState, mark


def counts(state: CopiedState, operator: str | None = None) -> dict[int, dict[str, int]]:
    found = state.partitions.snapshot(operator)
    tables = {each.number: each.rows() for each in found.partitions}
    return {
        number: dict(zip(rows["url"].to_pylist(), rows["n"].to_pylist(), strict=True))
        for number, rows in tables.items()
    }


def test_state_is_that_of_the_last_committed_batch(tmp_path: Path) -> None:
    state = CopiedState(tmp_path)
    assert state.partitions.snapshot(None).batch_id is None
    state.write(3, 0, {"/a": 1})
    state.write(7, 0, {"/b": 1})
    assert counts(state) == {}
    state.commit(0)
    state.write(3, 1, {"/a": 2})
    assert counts(state) == {3: {"/a": 1}, 7: {"/b": 1}}
    assert state.partitions.snapshot(None).batch_id == 0
    state.commit(1)
    assert counts(state) == {3: {"/a": 2}, 7: {"/b": 1}}


def test_snapshot_does_not_change_with_later_batches(tmp_path: Path) -> None:
    state = CopiedState(tmp_path)
    state.write(3, 0, {"/a": 1})
    state.commit(0)
    before = state.partitions.snapshot(None)
    for batch_id in (1, 2, 3):
        state.write(3, batch_id, {"/a": batch_id + 1})
        state.commit(batch_id)
    assert before.partitions[0].rows()["n"].to_pylist() == [1]
    assert counts(state) == {3: {"/a": 4}}


def test_merged_rows_are_cached_within_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = CopiedState(tmp_path)
    state.write(3, 0, {"/a": 1})
    state.commit(0)
    first, second = (state.partitions.snapshot(None).partitions[0].rows() for _ in range(2))
    assert first is second
    monkeypatch.setattr(state_partitions, "CACHED_BYTES_MAX", 0)
    state.write(3, 1, {"/a": 2})
    state.commit(1)
    first, second = (state.partitions.snapshot(None).partitions[0].rows() for _ in range(2))
    assert first is not second
    assert first == second


def test_operator_is_chosen_by_its_name(tmp_path: Path) -> None:
    marks = (mark("tumbling"), mark("changelog", "00000002"), mark("changelog", "00000003"))
    state = CopiedState(tmp_path, *marks)
    for each in marks:
        state.write(1, 0, {f"/{each.owner}": 1}, owner=each.owner)
    state.commit(0)
    assert counts(state, "tumbling") == {1: {"/tumbling 00000001": 1}}
    assert counts(state, "changelog 00000003") == {1: {"/changelog 00000003": 1}}
    with pytest.raises(BadQuestion, match="2 stateful operators called 'changelog'") as ambiguous:
        state.partitions.snapshot("changelog")
    assert "changelog 00000002, changelog 00000003" in ambiguous.value.hint
    with pytest.raises(BadQuestion, match="has 3 stateful operators"):
        state.partitions.snapshot(None)


def test_start_of_a_job_without_state_deletes_old_copies(tmp_path: Path) -> None:
    state = CopiedState(tmp_path)
    state.write(3, 0, {"/a": 1})
    state.partitions.prepare()
    state.commit(0)
    assert counts(state) == {}
