"""The state of a bucket in a key-value store: opened, advanced by a step, and written back as far as it changed.

The store is Spark's state of one grouping key.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import pyarrow as pa
from msgspec import UNSET

from headrace.errors import HeadraceError
from headrace.operators.state.cache import RunCache
from headrace.operators.state.manifest import Manifest
from headrace.operators.state.run import NEVER, TOMBSTONE, Run, without_tombstones
from headrace.operators.state.step import Advanced, Step, StepTime, advance
from headrace.operators.state.table import StateTable

MILLISECOND_US = 1_000

NEXT_BATCH_MS = (-1, -2)
"""Timers that every watermark has reached, so that they fire in every batch of the query. They replace each other,
because Spark removes a timer after it fired, even if it was set again meanwhile."""


class BucketStore(Protocol):
    """The store of one bucket. The next batch reads what was written if this batch succeeds."""

    def read_manifest(self) -> str | None: ...

    def write_manifest(self, text: str) -> None: ...

    def clear_manifest(self) -> None: ...

    def read_run(self, name: str) -> bytes | None: ...

    def write_run(self, name: str, content: bytes) -> None: ...

    def remove_run(self, name: str) -> None: ...

    def set_timer(self, before_ms: int | None, after_ms: int | None) -> None:
        """Replace the timer at `before_ms` by one that fires when the watermark reaches `after_ms`."""


def work(
    step: Step,
    store: BucketStore,
    rows: pa.Table,
    time: StepTime,
    *,
    buckets: int,
    cache: RunCache,
    bucket: Hashable,
    fired_ms: int | None = None,
    owner: str = "",
) -> Advanced:
    """Advance a bucket by one step. `bucket` is its key in the cache, `fired_ms` the timer that fired, which Spark has
    removed."""
    text = store.read_manifest()
    manifest = Manifest.from_json(text) if text else Manifest(version=step.version, buckets=buckets)
    manifest.check(version=step.version, buckets=buckets, owner=owner)
    cache.retain(bucket, manifest.runs)
    table = _open(step, store, manifest, cache, bucket)
    advanced = advance(step, table, rows, time)
    timer_ms = _timer_ms(advanced, manifest.timer_ms, fired_ms)
    expired_us = advanced.table.expired_us
    is_same = (
        manifest.version == step.version
        and _names(advanced.table) == manifest.runs
        and expired_us == manifest.expired_us
    )
    if is_same and timer_ms == manifest.timer_ms and timer_ms != fired_ms:
        return advanced
    _write(store, manifest, advanced.table, cache, bucket)
    armed_ms = None if manifest.timer_ms == fired_ms else manifest.timer_ms
    if armed_ms != timer_ms:
        store.set_timer(armed_ms, timer_ms)
    if advanced.table.runs or timer_ms is not None:
        after = Manifest(
            version=step.version,
            buckets=buckets,
            runs=_names(advanced.table),
            timer_ms=timer_ms,
            owner=owner,
            expired=UNSET if expired_us is None else expired_us,
        )
        store.write_manifest(after.to_json())
    elif text:
        store.clear_manifest()
    return advanced


def _names(table: StateTable) -> tuple[str, ...]:
    return tuple(run.name for run in table.runs)


def _open(
    step: Step, store: BucketStore, manifest: Manifest, cache: RunCache, bucket: Hashable
) -> StateTable:
    runs = []
    for name in manifest.runs:
        run = cache.get(name)
        if run is None:
            content = store.read_run(name)
            if content is None:
                raise HeadraceError(
                    f"run {name} of the state is missing", hint="rebuild the state of the job: --rebuild"
                )
            run = Run.decode(content, name=name)
            cache.put(run, bucket)
        runs.append(run)
    if manifest.version < step.version:
        runs = [_migrated(step, run, manifest.version) for run in runs]
    return step.table_of(runs, manifest.expired_us)


def _migrated(step: Step, run: Run, version: int) -> Run:
    """The same rows in the columns of the current version. Deleted ids stay deleted."""
    alive = without_tombstones(run.rows).drop_columns([TOMBSTONE])
    return Run.of(step.migrate(alive, version), run.ids[run.tombstones])


def _write(
    store: BucketStore, before: Manifest, table: StateTable, cache: RunCache, bucket: Hashable
) -> None:
    known = set(before.runs)
    for run in table.runs:
        if run.name not in known:
            store.write_run(run.name, run.encode())
            cache.put(run, bucket)
    for name in known.difference(_names(table)):
        store.remove_run(name)
        cache.drop(name)


def _timer_ms(advanced: Advanced, armed_ms: int | None, fired_ms: int | None) -> int | None:
    """Spark has either timers of event time or of processing time. Those of processing time are checked in every batch
    as long as there is one."""
    if advanced.next_wake_us < NEVER:
        if armed_ms in NEXT_BATCH_MS and armed_ms != fired_ms:
            return armed_ms
        return next(each for each in NEXT_BATCH_MS if each != fired_ms)
    if advanced.next_due_us == NEVER:
        return None
    # Watermarks are whole milliseconds. A watermark of 0 means that none is set, so the earliest timer is 1.
    return max(-(-advanced.next_due_us // MILLISECOND_US), 1)
