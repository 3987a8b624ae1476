"""Single bits flipped anywhere in a log: found with file and position, and valid batches stay readable."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.errors import CorruptSegment, LogReadOnly
from headrace.log.partition_log import PartitionLog
from headrace.records.batch import iterate_headers
from tests.log.batches import NOW_MS, NotSyncing, batch, open_log, read_all, values

CONFIG = LogConfig(index_interval_bytes=100, segment_bytes_max=220)
BATCHES = 8


def written_log(directory: Path, config: LogConfig = CONFIG) -> None:
    log = open_log(directory, config, files=NotSyncing())
    for number in range(BATCHES):
        log.append(batch(b"%d" % number, key=b"k"), now_ms=NOW_MS)
    log.flush()
    log.checkpoint(NOW_MS)


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << (bit % 8)
    path.write_bytes(content)


def check_outcome(log: PartitionLog, path: Path, bit: int, hit: int, is_last: bool) -> None:
    """The batch with offset `hit` has a flipped bit; every other one must be there, untouched."""
    others = [number for number in range(BATCHES) if number != hit]
    if not log.damages:
        assert is_last, "a damaged batch was cut although others follow"
        assert (log.end_offset, log.read_only_reason) == (hit, None)
        assert values(read_all(log)) == [b"%d" % number for number in others]
        return
    damage = log.damages[0]
    assert (damage.path, damage.position <= bit // 8 < damage.end_position) == (str(path), True)
    with pytest.raises(LogReadOnly, match="repair"):
        log.append(batch(b"more"), now_ms=NOW_MS)
    with pytest.raises(CorruptSegment) as caught:
        log.reader.read(hit, bytes_max=1000, end_offset=log.end_offset, at_least_one=True)
    assert (caught.value.path, caught.value.position) == (str(path), damage.position)
    for number in others:
        found = bytes(log.reader.read(number, bytes_max=1, end_offset=log.end_offset, at_least_one=True))
        assert [header.base_offset for _, header in iterate_headers(found)] == [number]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("policy", [pytest.param("delete", marks=pytest.mark.slow), "compact"])
def test_every_flipped_bit_is_found(tmp_path: Path, policy: str) -> None:
    config = LogConfig(index_interval_bytes=100, segment_bytes_max=220, cleanup_policy=frozenset({policy}))
    original = tmp_path / "original"
    written_log(original, config)
    logs = sorted(original.glob("*.log"))
    assert len(logs) == 3
    for path in (logs[1], logs[-1]):
        content = path.read_bytes()
        spans = [(position, header) for position, header in iterate_headers(content)]
        # Both policies take the same way through the code but for gaps: all bits of one, a sample of the other.
        for bit in range(0, 8 * len(content), 1 if policy == "delete" else 7):
            directory = tmp_path / "flipped"
            shutil.copytree(original, directory)
            flip(directory / path.name, bit)
            hit = next(h.base_offset for p, h in spans if p <= bit // 8 < p + h.size_bytes)
            log = open_log(directory, config, files=NotSyncing())
            check_outcome(log, directory / path.name, bit, hit, is_last=hit == BATCHES - 1)
            shutil.rmtree(directory)
