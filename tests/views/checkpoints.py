"""Checkpoints as Spark leaves them, for tests that need a position and no Spark."""

from __future__ import annotations

from pathlib import Path

from headrace.pipeline.fence import Fence
from headrace.views.jobs import checkpoint_of, job_name


def commit(view: str, version: int, data_dir: Path, ends: str) -> None:
    """The job of this version has committed batch 0, which ended at these offsets."""
    fence = Fence(
        job=job_name(view, version), checkpoint="c", batch_id=0, starts=('{"t":{"0":0}}',), ends=(ends,)
    )
    checkpoint = checkpoint_of(view, version, data_dir)
    Path(checkpoint.folder.address).parent.mkdir(parents=True, exist_ok=True)
    checkpoint.restore(fence, conf={}, now_ms=1)
    commits = Path(checkpoint.folder.address) / "commits"
    commits.mkdir()
    (commits / "0").write_text('v1\n{"nextBatchWatermarkMs": 0}')
