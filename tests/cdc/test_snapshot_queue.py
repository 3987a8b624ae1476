"""The tables that a snapshot has still to read, across restarts and requests."""

from __future__ import annotations

import json

from headrace.cdc.snapshot_queue import SnapshotQueue

A, B = ("public", "a"), ("public", "b")


def test_queue_continues_from_its_state() -> None:
    queue = SnapshotQueue()
    queue.add([A, B])
    queue.expect(100)
    queue.read(["7"], 7)
    assert [(each.table, each.rows_read, each.rows_total) for each in queue.progress()] == [
        ("public.a", 7, 100),
        ("public.b", 0, None),
    ]
    again = SnapshotQueue(json.loads(json.dumps(queue.state())))
    assert (again.current, again.after, again.state()) == (A, ["7"], queue.state())
    again.finish_table()
    again.finish_table()
    assert again.state() is None
    assert [(one.table, one.rows_read, one.is_done) for one in again.progress()] == [
        ("public.a", 7, True),
        ("public.b", 0, True),
    ]


def test_table_that_is_being_read_can_be_requested_once_more() -> None:
    queue = SnapshotQueue()
    queue.add([A, B])
    queue.add([A])
    assert queue.tables == [A, B]
    queue.read(["7"], 7)
    queue.add([A, B])
    assert queue.tables == [A, B, A]
