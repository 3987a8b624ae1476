"""A bucket's state in a store of named bytes: opened, stepped on, and written back as far as it changed.

The store is Spark's state of one grouping key; here it is any two dicts.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import pyarrow as pa

from headrace.errors import HeadraceError
from headrace.operators.state.cache import RunCache
from headrace.operators.state.manifest import Manifest
from headrace.operators.state.run import GONE, NEVER, Run, without_gone
from headrace.operators.state.step import Advanced, Step, StepTime, advance
from headrace.operators.state.table import StateTable

MILLISECOND_US = 1_000


class BucketStore(Protocol):
    """Where the state of one bucket is kept. What is written is there for the next batch if this one succeeds."""

    def read_manifest(self) -> str | None: ...

    def write_manifest(self, text: str) -> None: ...

    def clear_manifest(self) -> None: ...

    def read_run(self, name: str) -> bytes | None: ...

    def write_run(self, name: str, content: bytes) -> None: ...

    def remove_run(self, name: str) -> None: ...

    def set_timer(self, before_ms: int | None, after_ms: int | None) -> None:
        """Come back when the watermark reaches `after_ms`, and not at `before_ms`."""


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
    """One step of a bucket, which the cache knows as `bucket`. `fired_ms` is the timer that brought us here, which is
    gone by itself."""
    text = store.read_manifest()
    manifest = Manifest.from_json(text) if text else Manifest(version=step.version, buckets=buckets)
    manifest.check(version=step.version, buckets=buckets, owner=owner)
    cache.retain(bucket, manifest.runs)
    table = _open(step, store, manifest, cache, bucket)
    advanced = advance(step, table, rows, time)
    timer_ms = _timer_ms(advanced, time)
    is_same = manifest.version == step.version and _names(advanced.table) == manifest.runs
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
                    f"a part of the state is missing: run {name}", hint="rebuild the job's state by replay"
                )
            run = Run.decode(content, name=name)
            cache.put(run, bucket)
        runs.append(run)
    if manifest.version < step.version:
        runs = [_migrated(step, run, manifest.version) for run in runs]
    return StateTable(step.state_schema, runs)


def _migrated(step: Step, run: Run, version: int) -> Run:
    """The same rows in today's columns; what is gone stays so."""
    alive = without_gone(run.rows).drop_columns([GONE])
    return Run.of(step.migrate(alive, version), run.ids[run.gone])


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


def _timer_ms(advanced: Advanced, time: StepTime) -> int | None:
    """Watermarks are whole milliseconds. Who waits for the clock is looked at whenever the watermark moves."""
    due_ms = None
    if advanced.next_due_us < NEVER:
        # A watermark of 0 means that there is none, so nothing is due before 1.
        due_ms = max(-(-advanced.next_due_us // MILLISECOND_US), 1)
    if advanced.next_wake_us == NEVER:
        return due_ms
    moved_ms = max(time.watermark_us, 0) // MILLISECOND_US + 1
    return moved_ms if due_ms is None else min(due_ms, moved_ms)
