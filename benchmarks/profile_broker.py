"""Profiles Headrace's broker while a client loads it.

    python -m benchmarks.profile_broker --load java-produce --records 1000000
    python -m benchmarks.profile_broker --load raw-fetch --profiler py-spy

cProfile counts every call and slows the broker; py-spy (pip install py-spy) samples it a few hundred times
a second from outside, without native frames. `python -m benchmarks.broker` measures the CPU time for a million
records without a profiler.
"""

from __future__ import annotations

import pstats
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.bench import measured_load
from benchmarks.broker.brokers import Durability, RunningBroker, running_headrace
from benchmarks.broker.load import confluent, create_topic, java_consume, java_produce, raw
from benchmarks.broker.subjects.consume import write_full_batches
from benchmarks.broker.wire import TOPIC, make_batch

SAMPLES_PER_S = 250
SAMPLER_TIMEOUT_S = 60
DEFAULT_RECORDS = 500_000


class Profiler(StrEnum):
    CPROFILE = "cprofile"
    PY_SPY = "py-spy"


class Load(StrEnum):
    JAVA_PRODUCE = "java-produce"
    JAVA_CONSUME = "java-consume"
    CONFLUENT_PRODUCE = "confluent-produce"
    CONFLUENT_CONSUME = "confluent-consume"
    CONFLUENT_PING = "confluent-ping"
    RAW_PRODUCE = "raw-produce"
    RAW_FETCH = "raw-fetch"


def prepared(load: Load, bootstrap: str, records: int, record_bytes: int) -> Callable[[], float]:
    """A function that runs the load and returns the rate of the client. Records to read are written now."""
    if load in (Load.RAW_PRODUCE, Load.RAW_FETCH):
        return _prepared_raw(load, bootstrap, records, record_bytes)
    topic = "profiled"
    if load in (Load.JAVA_CONSUME, Load.CONFLUENT_CONSUME):
        write_full_batches(bootstrap, topic, records, record_bytes)
    else:
        create_topic(bootstrap, topic)
    if load is Load.JAVA_PRODUCE:
        return lambda: java_produce(bootstrap, topic, records, record_bytes)
    if load is Load.JAVA_CONSUME:
        return lambda: java_consume(bootstrap, topic, records)
    if load is Load.CONFLUENT_PING:
        return lambda: 1000 / confluent("ping", bootstrap, topic, records, record_bytes)["p50_ms"]
    work = "produce" if load is Load.CONFLUENT_PRODUCE else "consume"
    return lambda: confluent(work, bootstrap, topic, records, record_bytes)["records_per_s"]


def _prepared_raw(load: Load, bootstrap: str, records: int, record_bytes: int) -> Callable[[], float]:
    batch, batch_records = make_batch(record_bytes)
    frames = max(1, records // batch_records)
    create_topic(bootstrap, TOPIC.decode())
    if load is Load.RAW_FETCH:
        raw("produce", bootstrap, frames, record_bytes)
    work = load.removeprefix("raw-")
    records_per_megabyte = batch_records / len(batch) * 1e6
    return lambda: raw(work, bootstrap, frames, record_bytes)["megabytes_per_s"] * records_per_megabyte


@contextmanager
def sampled(broker: RunningBroker, output: Path) -> Iterator[None]:
    """py-spy samples the broker within the context."""
    command = shutil.which("py-spy")
    if command is None:
        raise typer.BadParameter("py-spy is not installed: pip install py-spy", param_hint="--profiler")
    options = [
        "--rate",
        str(SAMPLES_PER_S),
        "--format",
        "raw",
        "--output",
        str(output),
        "--nonblocking",
        "--function",
    ]
    sampler = subprocess.Popen(
        [command, "record", "--pid", str(broker.pid), *options], stdout=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        sampler.send_signal(signal.SIGINT)
        sampler.wait(SAMPLER_TIMEOUT_S)


def print_samples(console: Console, output: Path, top: int) -> None:
    """py-spy's raw format: the frames of a stack, separated by semicolons, and its number of samples."""
    itself: Counter[str] = Counter()
    within: Counter[str] = Counter()
    for line in output.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        itself[frames[-1]] += int(count)
        for frame in set(frames):
            within[frame] += int(count)
    total = max(1, itself.total())
    table = Table("itself", "with what it calls", "where", title=f"{total} samples")
    for frame, seen in itself.most_common(top):
        table.add_row(f"{seen / total:.1%}", f"{within[frame] / total:.1%}", frame)
    console.print(table)


def print_calls(console: Console, output: Path, top: int) -> None:
    # `get_stats_profile` is typed, but has only one of all functions with the same name.
    stats: dict[tuple[str, int, str], tuple[int, int, float, float, object]]
    stats = vars(pstats.Stats(str(output)))["stats"]
    total_s = sum(itself_s for _, _, itself_s, _, _ in stats.values())
    table = Table("itself s", "with what it calls s", "calls", "where", title=f"{total_s:.2f} s in all")
    by_cost = sorted(stats.items(), key=lambda each: -each[1][2])
    for (file_name, line, name), (_, calls, itself_s, within_s, _) in by_cost[:top]:
        table.add_row(f"{itself_s:.3f}", f"{within_s:.3f}", str(calls), f"{_short(file_name)}:{line} {name}")
    console.print(table)


def _short(file_name: str) -> str:
    return "/".join(Path(file_name).parts[-3:])


def main(
    load: Annotated[Load, typer.Option(help="The load.")] = Load.JAVA_PRODUCE,
    records: Annotated[int, typer.Option(min=1)] = DEFAULT_RECORDS,
    record_bytes: Annotated[int, typer.Option(min=1)] = 100,
    durability: Annotated[Durability, typer.Option()] = Durability.OS,
    profiler: Annotated[Profiler, typer.Option()] = Profiler.CPROFILE,
    top: Annotated[int, typer.Option(min=1, help="How many functions to show.")] = 30,
) -> None:
    """Profile Headrace's broker under one load, and print the most expensive functions."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="headrace-profile-") as name:
        folder = Path(name)
        output = folder / "profile"
        by_calls = profiler is Profiler.CPROFILE
        python_options: Sequence[str] = ("-m", "cProfile", "-o", str(output)) if by_calls else ()
        with running_headrace(folder, durability, python_options=python_options) as broker:
            run = prepared(load, broker.bootstrap, records, record_bytes)
            console.print(f"{load}: {records} records of {record_bytes} B, durability={durability} ...")
            if by_calls:
                sample = measured_load(broker.pid, records, run)
            else:
                with sampled(broker, output):
                    sample = measured_load(broker.pid, records, run)
        (print_calls if by_calls else print_samples)(console, output, top)
    console.print(f"the client measured {sample.value:,.0f} records/s")
    console.print(f"the broker used {sample.broker_cpu_s_per_million:.2f} s of CPU for a million records")
    if by_calls:
        console.print("cProfile slows both, and its figures include the start and the preparation.")


if __name__ == "__main__":
    typer.run(main)
