"""The fence: the last batch that a target has, stored in the target itself and written together with the rows.

A batch number is valid only within one checkpoint: a new checkpoint counts from 0 again. So a fence names the
checkpoint, and has the start and end offsets of its batch, from which a lost checkpoint is restored.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from headrace.pipeline.errors import BadJob


class Fence(Struct, frozen=True, kw_only=True, rename={"batch_id": "batch"}):
    """One micro-batch of one job.

    `checkpoint` is the identity that Spark gives a query and stores in its checkpoint. `starts` and `ends` have a text
    for each source of the query, in the notation of Spark's offset log; `-` is a source without an offset.
    """

    job: str
    checkpoint: str
    batch_id: int
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()

    def covers(self, other: Fence) -> bool:
        """Whether a target with this fence has the rows of `other` already."""
        return self.checkpoint == other.checkpoint and self.batch_id >= other.batch_id

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Fence:
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise BadJob(
                f"this is not a fence: {text[:200]!r}",
                hint="another program wrote it; give the job another name, or remove the fence from the target",
            ) from error
