"""The fence: how far a sink has come, kept in the target itself and written together with the rows.

A batch number means something only within one checkpoint: a new checkpoint counts from 0 again. So a fence names the
checkpoint, and carries the source offsets that its batch began and ended at, from which a lost checkpoint is rebuilt.
"""

from __future__ import annotations

import json

from msgspec import Struct

from headrace.pipeline.errors import BadJob


class Fence(Struct, frozen=True, kw_only=True):
    """One micro-batch of one job.

    `checkpoint` is the identity that Spark gives a query and keeps in its checkpoint. `starts` and `ends` hold a text
    for each source of the query, in Spark's own notation, as its offset log has them; `-` stands for a source without
    one.
    """

    job: str
    checkpoint: str
    batch_id: int
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()

    def covers(self, other: Fence) -> bool:
        """Whether a target that keeps this fence has the rows of `other` already."""
        return self.checkpoint == other.checkpoint and self.batch_id >= other.batch_id

    def to_json(self) -> str:
        return json.dumps(
            {
                "job": self.job,
                "checkpoint": self.checkpoint,
                "batch": self.batch_id,
                "starts": self.starts,
                "ends": self.ends,
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> Fence:
        try:
            kept = json.loads(text)
            return cls(
                job=kept["job"],
                checkpoint=kept["checkpoint"],
                batch_id=int(kept["batch"]),
                starts=tuple(kept["starts"]),
                ends=tuple(kept["ends"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise BadJob(
                f"this is not a fence: {text[:200]!r}",
                hint="another program wrote it; give the job another name, or remove the fence from the target",
            ) from error
