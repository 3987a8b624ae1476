"""What a job does if its checkpoint and its target do not match.

The target's fence contains the checkpoint and the source offsets of the last written batch. A missing checkpoint
or an older one is restored from the fence, so that batches keep their numbers. A job with state cannot be
restored this way: its state has to be rebuilt, and only on request. `decide` is pure.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.pipeline.errors import BadJob

if TYPE_CHECKING:
    from headrace.pipeline.checkpoint import Checkpoint
    from headrace.pipeline.fence import Fence
    from headrace.pipeline.report.registry import DeletedCheckpoints


BOUNDED_PREFIX = "bounded:"
"""Prefix of the identity of a bounded run, which has no checkpoint to resume from."""


class Way(enum.StrEnum):
    """How a job starts."""

    START = "start"
    """there is no earlier run, or it was reset"""
    RESUME = "resume"
    """from the checkpoint"""
    RESTORE = "restore"
    """from a checkpoint that is restored from the target's fence"""
    REBUILD = "rebuild"
    """the target is cleared, the checkpoint deleted, and everything replayed"""


class Found(Struct, frozen=True, kw_only=True):
    """What a start finds."""

    identity: str | None
    planned_batch: int | None
    committed_batch: int | None
    fence: Fence | None

    @classmethod
    def at(cls, checkpoint: Checkpoint, fence: Fence | None) -> Found:
        return cls(
            identity=checkpoint.identity(),
            planned_batch=checkpoint.planned_batch(),
            committed_batch=checkpoint.committed_batch(),
            fence=fence,
        )


class Decision(Struct, frozen=True, kw_only=True):
    way: Way
    note: str = ""


def decide(
    job: str,
    found: Found,
    *,
    is_stateful: bool,
    reads_files: bool = False,
    deleted: DeletedCheckpoints,
    is_rebuild: bool = False,
) -> Decision:
    """How to start. Raises if a start would lose rows, or write them twice."""
    if is_rebuild:
        return Decision(way=Way.REBUILD)
    fence = found.fence
    if (
        fence is None
        or fence.checkpoint in deleted.checkpoints
        or fence.checkpoint.startswith(BOUNDED_PREFIX)
    ):
        return _without_fence(found, is_target_known=fence is not None)
    lost = "the state of its aggregates or joins" if is_stateful else ""
    if reads_files:
        lost = "the list of the files that it has read"
    if found.identity is None:
        return _restore(job, fence, lost, what="its checkpoint is missing")
    if found.identity != fence.checkpoint:
        raise BadJob(
            f"job {job}: the target was last written under checkpoint {fence.checkpoint}, and this one is "
            f"{found.identity}: two jobs of this name write to it",
            hint="give one of them another name; if the other checkpoint is no longer used, "
            f"`headrace job reset {job}` or `--rebuild`",
        )
    if found.planned_batch is None or found.planned_batch < fence.batch_id:
        return _restore(
            job, fence, lost, what=f"its checkpoint is older than batch {fence.batch_id} of the target"
        )
    return Decision(way=Way.RESUME)


def _without_fence(found: Found, *, is_target_known: bool) -> Decision:
    if found.identity is None:
        return Decision(way=Way.START)
    if found.committed_batch is not None and not is_target_known:
        return Decision(
            way=Way.RESUME,
            note=f"the target has no fence, although {found.committed_batch + 1} batches were written: either this "
            "sink has none, or the target was emptied, and then `--rebuild` fills it again",
        )
    return Decision(way=Way.RESUME)


def _restore(job: str, fence: Fence, lost: str, *, what: str) -> Decision:
    """`lost` is what only the checkpoint has."""
    if lost:
        raise BadJob(
            f"job {job}: {what}, and with it {lost}",
            hint="`--rebuild` clears the target and builds both again by replay from the start of the sources",
        )
    return Decision(
        way=Way.RESTORE,
        note=f"{what}: it was restored from the target's fence, at batch {fence.batch_id}",
    )
