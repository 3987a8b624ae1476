"""The ceiling: the cost of the same bytes through a bare socket and a bare file, compared with the broker.

One connection sends prepared frames of 16 KB with five in flight, like the Java producer, or fetches 1 MB at
a time. The client is so light that the figures are those of the server.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.broker.bench import Bench, Subject
from benchmarks.broker.brokers import Durability, running_broker
from benchmarks.broker.load import create_topic, raw
from benchmarks.broker.wire import TOPIC, make_batch, produce_request
from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.processes import cpu_s

RECORD_BYTES = 100


class Ceiling(Subject):
    name = "ceiling"
    title = "The ceiling: a bare socket and a bare file"
    sides = (Side.BARE, Side.HEADRACE, Side.KAFKA)

    @property
    def rows(self) -> tuple[Row, ...]:
        return (
            Row(
                key="ceiling-produce-os",
                what="16 KB produce frames, page cache",
                unit=Unit.MEGABYTES_PER_S,
                goals=(Goal(at_least=0.5, against_bare=True),),
            ),
            Row(key="ceiling-fetch", what="1 MB fetches, page cache", unit=Unit.MEGABYTES_PER_S),
            Row(
                key="ceiling-produce-fsync",
                what="16 KB produce frames, fsync",
                unit=Unit.MEGABYTES_PER_S,
                goals=(Goal(at_least=0.75, against_bare=True),),
            ),
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        for durability in Durability:
            frames = (
                bench.sizes.raw_frames_os if durability is Durability.OS else bench.sizes.raw_frames_fsync
            )
            with bench.folder() as folder:
                load = self._bare if side is Side.BARE else self._broker
                yield from load(side, folder, durability, frames, bench)

    def _broker(
        self, side: Side, folder: Path, durability: Durability, frames: int, bench: Bench
    ) -> Iterator[tuple[str, Sample]]:
        with running_broker(side, folder, durability) as broker:
            bench.warm_up(broker)
            create_topic(broker.bootstrap, TOPIC.decode())
            bench.show_step(f"produce frames, {durability}")
            yield (
                f"ceiling-produce-{durability}",
                _with_cpu(broker.pid, lambda: raw("produce", broker.bootstrap, frames, RECORD_BYTES)),
            )
            if durability is Durability.OS:
                bench.show_step("fetches")
                yield (
                    "ceiling-fetch",
                    _with_cpu(broker.pid, lambda: raw("fetch", broker.bootstrap, frames, RECORD_BYTES)),
                )

    def _bare(
        self, _side: Side, folder: Path, durability: Durability, frames: int, bench: Bench
    ) -> Iterator[tuple[str, Sample]]:
        batch, _ = make_batch(RECORD_BYTES)
        bench.show_step(f"a bare socket and a bare file, {durability}")
        file = folder / "bare"
        frame_bytes = len(produce_request(batch))
        yield f"ceiling-produce-{durability}", _bare_sample("produce", durability, file, frame_bytes, frames)
        if durability is Durability.OS:
            yield "ceiling-fetch", _bare_sample("fetch", durability, file, len(batch), frames)


def _bare_sample(work: str, durability: Durability, file: Path, frame_bytes: int, frames: int) -> Sample:
    command = [
        sys.executable,
        "-m",
        "benchmarks.broker.bare_peer",
        work,
        durability,
        str(file),
        str(frame_bytes),
    ]
    peer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert peer.stdout is not None
        address = f"127.0.0.1:{int(peer.stdout.readline())}"
        before_s = cpu_s(peer.pid)
        os.sync()
        reached = raw(work, address, frames, RECORD_BYTES)
        # The peer ends with its connection; afterwards only its parent knows its CPU time.
        used_s = _cpu_s_of_ended(peer) - before_s
    finally:
        peer.kill()
        peer.wait()
    return Sample(
        value=reached["megabytes_per_s"], broker_cpu_s_per_million=used_s / reached["records"] * 1e6
    )


def _cpu_s_of_ended(peer: subprocess.Popen[str]) -> float:
    _, status, usage = os.wait4(peer.pid, 0)
    peer.returncode = os.waitstatus_to_exitcode(status)
    assert peer.returncode == 0, f"the bare peer ended with code {peer.returncode}"
    return usage.ru_utime + usage.ru_stime


def _with_cpu(pid: int, load: Callable[[], dict[str, float]]) -> Sample:
    os.sync()
    before_s = cpu_s(pid)
    reached = load()
    used_s = cpu_s(pid) - before_s
    return Sample(
        value=reached["megabytes_per_s"], broker_cpu_s_per_million=used_s / reached["records"] * 1e6
    )
