"""Batches that are inspected in threads: their order, and what may change meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.broker.client import Client
from headrace.broker.inspection import Inspection
from headrace.broker.partition import Partition
from headrace.broker.runtime import Runtime
from headrace.broker.settings import BrokerSettings
from headrace.clock import SystemClock
from headrace.log.checkpoints import LogCheckpoint
from headrace.log.config import LogConfig
from headrace.log.errors import RecordsWithoutKey
from headrace.log.filesystem import DiskFileSystem
from headrace.log.partition_log import PartitionLog
from headrace.protocol.error_codes import ErrorCode
from headrace.records.batch import Buffer, read_header
from headrace.records.compression import Codec
from headrace.testing.wire import Wire
from tests.broker.requests import (
    PRODUCE_BY_NAME,
    batch,
    create_topic,
    end_offset,
    new_name,
    new_producer_id,
    only_partition,
    produce,
    produce_request,
    read_all,
)

MANY = [b"value"] * 30_000
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))


def a_client() -> Client:
    return Client(host="127.0.0.1", port=1, local_host="127.0.0.1", local_port=2)


class Bench:
    """A log, and what was appended to it in which order."""

    def __init__(self, folder: Path, config: LogConfig) -> None:
        self.runtime = Runtime(BrokerSettings(), DiskFileSystem(), SystemClock(), asyncio.get_running_loop())
        log = PartitionLog.open(
            folder,
            config,
            LogCheckpoint(was_clean=True),
            files=self.runtime.files,
            clock=self.runtime.clock,
        )
        self.partition = Partition("t", 0, log, reads_unflushed=True)
        self.inspection = Inspection(self.runtime, self._count_bytes)
        self.appended: list[bytes] = []
        self.held_bytes = 0

    def append(self, data: bytes, client: Client | None = None) -> asyncio.Task[None]:
        return self.inspection.append(self.partition, data, client or a_client(), self._append)

    def _count_bytes(self, change_bytes: int) -> None:
        self.held_bytes += change_bytes

    def _append(self, data: Buffer) -> None:
        self.appended.append(bytes(data))


@pytest.fixture
def on_bench(tmp_path: Path) -> Callable[..., None]:
    def run(test: Callable[[Bench], object], config: LogConfig = COMPACTED) -> None:
        async def main() -> None:
            bench = Bench(tmp_path / "t-0", config)
            try:
                await test(bench)  # type: ignore[misc]
            finally:
                bench.inspection.close()
                bench.partition.log.close()

        asyncio.run(main())

    return run


def test_batch_that_is_inspected_first_is_appended_in_its_turn(on_bench: Callable[..., None]) -> None:
    slow, quick = batch(*MANY, key=b"k"), batch(b"quick", key=b"k")

    async def test(bench: Bench) -> None:
        appending = bench.append(slow), bench.append(quick)
        assert bench.held_bytes == len(slow) + len(quick)
        await asyncio.gather(*appending)
        assert bench.appended == [slow, quick]
        assert not bench.inspection.is_needed(bench.partition, b"")
        assert bench.held_bytes == 0

    on_bench(test)


def test_rejected_batch_lets_nothing_overtake_the_one_before_it(on_bench: Callable[..., None]) -> None:
    slow, keyless, quick = batch(*MANY, key=b"k"), batch(b"keyless"), batch(b"quick", key=b"k")

    async def test(bench: Bench) -> None:
        first, rejected, last = bench.append(slow), bench.append(keyless), bench.append(quick)
        with pytest.raises(RecordsWithoutKey):
            await rejected
        await asyncio.gather(first, last)
        assert bench.appended == [slow, quick]

    on_bench(test)


def test_batch_is_inspected_again_when_the_topic_changes_meanwhile(on_bench: Callable[..., None]) -> None:
    async def test(bench: Bench) -> None:
        appending = bench.append(batch(b"keyless"))
        await asyncio.sleep(0)
        bench.partition.log.reconfigure(replace(COMPACTED, compression=Codec.GZIP))
        with pytest.raises(RecordsWithoutKey):
            await appending
        assert bench.appended == []

    on_bench(test, LogConfig(compression=Codec.GZIP))


def test_nothing_is_appended_after_the_close(on_bench: Callable[..., None]) -> None:
    async def test(bench: Bench) -> None:
        appending = [bench.append(batch(*MANY, key=b"k")), bench.append(batch(b"quick", key=b"k"))]
        await asyncio.sleep(0)
        bench.inspection.close()
        await asyncio.wait(appending)
        assert all(one.cancelled() for one in appending)
        assert bench.appended == []

    on_bench(test)


# Over the wire


def sequenced(producer_id: int, sequence: int, *values: bytes) -> bytes:
    return batch(*values, key=b"k", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


@pytest.mark.parametrize(
    ("policy", "codec"), [("compact", "producer"), ("delete", "zstd"), ("compact", "gzip")]
)
def test_pipelined_batches_of_an_idempotent_producer_keep_their_order_and_are_stored_once(
    wire: Wire, policy: str, codec: str
) -> None:
    name = new_name()
    create_topic(wire, name, cleanup_policy=policy, compression_type=codec)
    producer_id = new_producer_id(wire)
    sizes = [3_000, 1, 500, 1]
    firsts = [sum(sizes[:number]) for number in range(len(sizes))]
    for _ in range(2):  # and all of them again, before the first response
        for first, size in zip(firsts, sizes, strict=True):
            data = sequenced(producer_id, first, *[b"%d" % first] * size)
            wire.send(produce_request(name, data), version=PRODUCE_BY_NAME)
    responses = [only_partition(wire.receive()) for _ in range(2 * len(sizes))]
    assert [(one.error_code, one.base_offset) for one in responses] == [(0, first) for first in firsts] * 2
    assert end_offset(wire, name) == sum(sizes)


def test_batch_without_acknowledgement_is_appended_in_its_turn(wire: Wire) -> None:
    name = new_name()
    create_topic(wire, name, cleanup_policy="compact")
    wire.send(
        produce_request(name, batch(b"unanswered", key=b"k"), acks=0),
        version=PRODUCE_BY_NAME,
        has_response=False,
    )
    assert produce(wire, name, batch(b"answered", key=b"k")).base_offset == 1
    assert [record.value for record in read_all(wire, name)] == [b"unanswered", b"answered"]


def test_one_rejected_partition_does_not_keep_the_others_from_being_stored(wire: Wire) -> None:
    compacted, plain = new_name(), new_name()
    create_topic(wire, compacted, cleanup_policy="compact")
    create_topic(wire, plain)
    requests = [produce_request(compacted, batch(b"keyless")), produce_request(plain, batch(b"a"))]
    both = replace(requests[0], topic_data=requests[0].topic_data + requests[1].topic_data)
    response = wire.request(both, version=PRODUCE_BY_NAME)
    codes = {one.name: one.partition_responses[0].error_code for one in response.responses}
    assert codes == {compacted: ErrorCode.INVALID_RECORD, plain: 0}


def test_batch_in_the_codec_of_its_topic_is_stored_unchanged(wire: Wire) -> None:
    name = new_name()
    create_topic(wire, name, compression_type="gzip")
    data = batch(b"a" * 100, codec=Codec.GZIP)
    produce(wire, name, data)
    produce(wire, name, batch(b"a" * 100, codec=Codec.LZ4))
    assert [record.value for record in read_all(wire, name)] == [b"a" * 100] * 2
    assert read_header(data).compression is Codec.GZIP
