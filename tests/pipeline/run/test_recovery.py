"""How a job starts, by its checkpoint and its target: no row may be lost or written twice."""

from __future__ import annotations

import pytest

from headrace.pipeline.errors import BadJob
from headrace.pipeline.fence import Fence
from headrace.pipeline.report.registry import DeletedCheckpoints
from headrace.pipeline.run.recovery import BOUNDED_PREFIX, Decision, Found, Way, decide

ENDS = ('{"clicks":{"0":70}}',)


def fence(*, checkpoint: str = "one", batch_id: int = 7) -> Fence:
    return Fence(job="j", checkpoint=checkpoint, batch_id=batch_id, starts=ENDS, ends=ENDS)


def found(
    *,
    identity: str | None = "one",
    planned: int | None = 7,
    committed: int | None = 6,
    target: Fence | None = None,
) -> Found:
    return Found(identity=identity, planned_batch=planned, committed_batch=committed, fence=target)


def start(
    what: Found,
    *,
    is_stateful: bool = False,
    reads_files: bool = False,
    deleted: tuple[str, ...] = (),
    is_rebuild: bool = False,
) -> Decision:
    return decide(
        "j",
        what,
        is_stateful=is_stateful,
        reads_files=reads_files,
        deleted=DeletedCheckpoints(checkpoints=deleted),
        is_rebuild=is_rebuild,
    )


NOTHING = found(identity=None, planned=None, committed=None)
CHECKPOINT_LOST = found(identity=None, planned=None, committed=None, target=fence())


def test_job_without_an_earlier_run_starts() -> None:
    assert start(NOTHING).way is Way.START


@pytest.mark.parametrize("is_stateful", [False, True])
@pytest.mark.parametrize("planned", [7, 8])
def test_job_resumes_from_a_checkpoint_with_the_batch_of_the_target(planned: int, is_stateful: bool) -> None:
    assert start(found(planned=planned, target=fence()), is_stateful=is_stateful) == Decision(way=Way.RESUME)


def test_job_without_state_is_restored_from_the_fence_when_its_checkpoint_is_lost() -> None:
    decision = start(CHECKPOINT_LOST)
    assert decision.way is Way.RESTORE
    assert "batch 7" in decision.note


def test_job_with_state_must_be_rebuilt_when_its_checkpoint_is_lost() -> None:
    with pytest.raises(BadJob, match=r"(?s)state of its aggregates or joins.*--rebuild"):
        start(CHECKPOINT_LOST, is_stateful=True)


def test_job_that_reads_files_must_be_rebuilt_when_its_checkpoint_is_lost() -> None:
    with pytest.raises(BadJob, match=r"(?s)the list of the files that it has read.*--rebuild"):
        start(CHECKPOINT_LOST, reads_files=True)


@pytest.mark.parametrize("planned", [None, 3, 6])
def test_checkpoint_older_than_the_target_is_treated_as_lost(planned: int | None) -> None:
    """It would plan batches under numbers that the target has already, with other rows in them."""
    older = found(planned=planned, committed=None if planned is None else planned - 1, target=fence())
    assert start(older).way is Way.RESTORE
    with pytest.raises(BadJob, match=r"older than batch 7 .*state of its aggregates"):
        start(older, is_stateful=True)


def test_target_of_another_checkpoint_is_rejected() -> None:
    with pytest.raises(BadJob, match="two jobs of this name"):
        start(found(identity="two", planned=9, target=fence(checkpoint="one", batch_id=3)))


def test_fence_of_a_deleted_checkpoint_is_ignored() -> None:
    assert start(CHECKPOINT_LOST, is_stateful=True, deleted=("one",)).way is Way.START
    assert start(found(identity="two", target=fence()), deleted=("one",)).way is Way.RESUME


def test_fence_of_a_bounded_run_is_ignored() -> None:
    bounded = fence(checkpoint=f"{BOUNDED_PREFIX}one", batch_id=0)
    assert start(found(identity=None, planned=None, committed=None, target=bounded)).way is Way.START


def test_target_that_was_emptied_is_noted() -> None:
    decision = start(found(target=None))
    assert decision.way is Way.RESUME
    assert "emptied" in decision.note


@pytest.mark.parametrize(
    "what", [NOTHING, CHECKPOINT_LOST, found(target=fence()), found(identity="two", target=fence())]
)
def test_requested_rebuild_is_always_performed(what: Found) -> None:
    assert start(what, is_stateful=True, is_rebuild=True).way is Way.REBUILD
