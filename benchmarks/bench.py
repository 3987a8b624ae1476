"""The interface of the subjects of every benchmark: a folder, progress messages, rows and samples."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from benchmarks.measurements import Row, Sample, Side
from benchmarks.processes import cpu_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The environment of a subject. Each benchmark has a subclass with the sizes of its samples."""

    workplace: Path
    rows_wanted: str
    show_step: Callable[[str], None]

    def wants(self, row_key: str) -> bool:
        return fnmatch.fnmatch(row_key, self.rows_wanted)

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """A temporary folder on the measured disk. The disk is synced at the end, so that no sample pays for others."""
        folder = Path(tempfile.mkdtemp(dir=self.workplace))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.sync()


BenchKind = TypeVar("BenchKind", bound=Bench, contravariant=True)


def measured_load(broker_pid: int, records: int, load: Callable[[], float]) -> Sample:
    """Run `load`, which returns its figure, and measure the CPU time of the broker."""
    os.sync()  # earlier writes must not happen during this load
    cpu_before_s = cpu_s(broker_pid)
    value = load()
    used_s = cpu_s(broker_pid) - cpu_before_s
    return Sample(value=value, broker_cpu_s_per_million=used_s / records * 1e6)


class Subject(ABC, Generic[BenchKind]):
    """One group of rows, measured together: `measure` is called once for each side in each round."""

    name: ClassVar[str]
    title: ClassVar[str]
    sides: ClassVar[tuple[Side, ...]] = (Side.HEADRACE, Side.KAFKA)

    @property
    @abstractmethod
    def rows(self) -> tuple[Row, ...]: ...

    def prepare(self, side: Side, bench: BenchKind) -> None:
        """Called once for each side before the first round."""

    @abstractmethod
    def measure(self, side: Side, bench: BenchKind) -> Iterator[tuple[str, Sample]]:
        """Yield each row key with its sample immediately, so that a later failure does not lose it."""
