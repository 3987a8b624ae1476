"""Leader epochs: one for each crash, kept in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headrace.log.config import LogConfig
from tests.log.batches import NOW_MS, batch, open_log

CONFIG = LogConfig(segment_bytes_max=20_000, index_interval_bytes=1000)


def test_every_crash_starts_a_new_leader_epoch_and_a_clean_stop_does_not(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    log.append(batch(b"a"), now_ms=NOW_MS)
    crashed = open_log(tmp_path, CONFIG)
    crashed.append(batch(b"b", b"c"), now_ms=NOW_MS)
    again = open_log(tmp_path, CONFIG)
    again.append(batch(b"d"), now_ms=NOW_MS)
    assert (log.leader_epoch, crashed.leader_epoch, again.leader_epoch) == (0, 1, 2)
    assert [again.end_offset_for_epoch(epoch) for epoch in range(4)] == [(0, 1), (1, 3), (2, 4), (-1, -1)]
    closed = again.close()
    clean = open_log(tmp_path, CONFIG, was_clean=True, recovery_offset=closed.end_offset)
    assert clean.leader_epoch == 2
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n1 1\n2 3\n"


def test_lost_epochs_are_found_in_the_batches(tmp_path: Path) -> None:
    for _ in range(3):
        open_log(tmp_path, CONFIG).append(batch(b"a"), now_ms=NOW_MS)
    closed = open_log(tmp_path, CONFIG).close()
    (tmp_path / "leader-epoch-checkpoint").write_text("rubbish")
    events: list[tuple[str, Mapping[str, object]]] = []
    log = open_log(tmp_path, CONFIG, was_clean=True, recovery_offset=closed.end_offset, events=events)
    assert [name for name, _ in events] == ["leader_epochs_ignored"]
    assert (log.end_offset, log.leader_epoch) == (3, 3)
    log.append(batch(b"b"), now_ms=NOW_MS)
    again = open_log(tmp_path, CONFIG)
    assert (again.end_offset, again.leader_epoch, again.read_only_reason) == (4, 4, None)
