"""Reading the log of an internal topic from its start to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.broker import stored_batches
from headrace.broker.stored_batches import batches_in
from headrace.records.errors import InvalidBatch
from headrace.records.record import decode_records
from tests.log.batches import NOW_MS, batch, open_log


@pytest.mark.parametrize("read_bytes", [1, 1 << 20])
def test_every_batch_from_an_offset_on_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_bytes: int
) -> None:
    monkeypatch.setattr(stored_batches, "READ_BYTES", read_bytes)
    log = open_log(tmp_path)
    assert [*batches_in(log)] == []
    for number in range(5):
        log.append(batch(b"%d" % number, b"more"), now_ms=NOW_MS)
    assert [header.base_offset for header, _ in batches_in(log)] == [0, 2, 4, 6, 8]
    found = [decode_records(data, bytes_max=1 << 20)[0].value for _, data in batches_in(log, start_offset=4)]
    assert found == [b"2", b"3", b"4"]


def test_damaged_batch_is_an_error_that_names_the_repair(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(2):
        log.append(batch(b"x"), now_ms=NOW_MS)
    [segment] = tmp_path.rglob("*.log")
    data = segment.read_bytes()
    segment.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    batches = batches_in(log)
    assert next(batches)[0].base_offset == 0
    with pytest.raises(InvalidBatch, match=r"offset 1 .* is damaged") as error:
        next(batches)
    assert "headrace log repair" in error.value.hint
