"""The fences of a Delta table: in the descriptions of its commits, confirmed by application transactions.

Readers use it too, so it does not import Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from deltalake import DeltaTable

from headrace.pipeline.errors import BadJob
from headrace.pipeline.fence import Fence

FENCES = "headrace.fences"
"""The field of a commit's description with the fences of all jobs, so that the newest commit is enough to find them."""

CLEARED = -1
"""A transaction's number after `clear`: Delta can't delete one."""

HISTORY_COMMITS_MAX = 1_000
"""Commits that are searched for a fence. All commits of Headrace contain it; these are others' in a row."""


def application(fence: Fence) -> str:
    return f"headrace/{fence.job}/{fence.checkpoint}"


def describe(fences: Mapping[str, Fence]) -> dict[str, str]:
    return {FENCES: json.dumps({job: fence.to_json() for job, fence in fences.items()})}


def kept_fence(table: DeltaTable, job: str) -> Fence | None:
    """The last fence of a job, newest commits first.

    Two jobs that write the same table do not see each other's newest fence, and carry on an older one. So a fence
    counts only if it has the number that its transaction has.
    """
    for commit in table.history(HISTORY_COMMITS_MAX):
        fence = read_fences(commit.get(FENCES, "{}")).get(job)
        if fence is not None and table.transaction_version(application(fence)) == fence.batch_id:
            return fence
    return None


def read_fences(text: str) -> dict[str, Fence]:
    try:
        return {job: Fence.from_json(kept) for job, kept in json.loads(text).items()}
    except (ValueError, AttributeError) as error:
        raise BadJob(
            f"this is no list of fences: {text[:200]!r}", hint="another program wrote it into the table's log"
        ) from error


def newest_fences(table: DeltaTable) -> list[Fence]:
    """The last fence of each job that wrote the table, as far as recent commits contain it."""
    for commit in table.history(HISTORY_COMMITS_MAX):
        if FENCES in commit:
            kept = [kept_fence(table, job) for job in read_fences(commit[FENCES])]
            return [fence for fence in kept if fence is not None]
    return []
