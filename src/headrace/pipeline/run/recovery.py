"""What a job does when its checkpoint and its target do not tell the same story.

The target's fence names the checkpoint and the source offsets of the last batch that was written. A checkpoint that is
gone, or that is older than the target, is written again from the fence, so that batches keep their numbers. A job with
state can't go on that way: its state has to be built again, and that is never done unasked. `decide` is pure.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.pipeline.errors import BadJob

if TYPE_CHECKING:
    from headrace.pipeline.checkpoint import Checkpoint
    from headrace.pipeline.fence import Fence
    from headrace.pipeline.report.registry import Forgotten


BOUNDED_PREFIX = "bounded:"
"""Of the identity under which a bounded job writes: there is no checkpoint to go on with."""


class Way(enum.StrEnum):
    """How a job starts."""

    BEGIN = "begin"
    """nothing was there before, or it is forgotten"""
    RESUME = "resume"
    """the checkpoint says where"""
    RESTORE = "restore"
    """the checkpoint is written again from the target's fence"""
    REBUILD = "rebuild"
    """the target is cleared, the checkpoint forgotten, and everything replayed"""


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
    job: str, found: Found, *, is_stateful: bool, forgotten: Forgotten, is_rebuild: bool = False
) -> Decision:
    """How to start; raises where that would lose rows, or write them twice."""
    if is_rebuild:
        return Decision(way=Way.REBUILD)
    fence = found.fence
    if (
        fence is None
        or fence.checkpoint in forgotten.checkpoints
        or fence.checkpoint.startswith(BOUNDED_PREFIX)
    ):
        return _without_fence(found, is_target_known=fence is not None)
    if found.identity is None:
        return _restore(job, fence, is_stateful, what="its checkpoint is gone")
    if found.identity != fence.checkpoint:
        raise BadJob(
            f"job {job}: the target was last written under checkpoint {fence.checkpoint}, and this one is "
            f"{found.identity}: two jobs of this name write to it",
            hint=f"give one of them another name; if the other checkpoint is history, `headrace job reset {job}` or "
            "`--rebuild`",
        )
    if found.planned_batch is None or found.planned_batch < fence.batch_id:
        return _restore(
            job, fence, is_stateful, what=f"its checkpoint is older than batch {fence.batch_id} of the target"
        )
    return Decision(way=Way.RESUME)


def _without_fence(found: Found, *, is_target_known: bool) -> Decision:
    if found.identity is None:
        return Decision(way=Way.BEGIN)
    if found.committed_batch is not None and not is_target_known:
        return Decision(
            way=Way.RESUME,
            note=f"the target keeps no fence, although {found.committed_batch + 1} batches were written: either this "
            "sink has none, or the target was emptied, and then `--rebuild` fills it again",
        )
    return Decision(way=Way.RESUME)


def _restore(job: str, fence: Fence, is_stateful: bool, *, what: str) -> Decision:
    if is_stateful:
        raise BadJob(
            f"job {job}: {what}, and with it the state of its aggregates or joins",
            hint="`--rebuild` clears the target and builds both again by replay from the start of the sources",
        )
    return Decision(
        way=Way.RESTORE,
        note=f"{what}: it was written again from the target's fence, at batch {fence.batch_id}",
    )
