"""CPU time, resident memory and written bytes of a running process and its children, from the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_UTIME_FIELD = 11  # counted from the field after the name of the command, which may contain spaces
_STIME_FIELD = 12


def process_tree(pid: int) -> list[int]:
    """The process and all its running descendants."""
    tree = [pid]
    for parent in tree:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                tree.extend(int(child) for child in children.read_text().split())
            except FileNotFoundError:  # a thread that ended since the folder was listed
                continue
    return tree


def cpu_s(pid: int) -> float:
    """User and system time of all threads of the process tree, in steps of 10 ms."""
    ticks = 0
    for text in _proc_files(pid, "stat"):
        fields = text.rpartition(")")[2].split()
        ticks += int(fields[_UTIME_FIELD]) + int(fields[_STIME_FIELD])
    return ticks / _TICKS_PER_S


def resident_mb(pid: int) -> float:
    """Resident memory of the process tree. Shared pages count in each process."""
    pages = sum(int(text.split()[1]) for text in _proc_files(pid, "statm"))
    return pages * _PAGE_BYTES / 1e6


def written_bytes(pid: int) -> int:
    """The bytes that the running process tree has written to file systems, without pipes."""
    total = 0
    for text in _proc_files(pid, "io"):
        counts = dict(line.split(": ") for line in text.splitlines())
        total += int(counts["write_bytes"])
    return total


def _proc_files(pid: int, file: str) -> Iterator[str]:
    """The text of this file of each process in the tree; a child that has ended since the listing is skipped."""
    for each in process_tree(pid):
        try:
            yield Path(f"/proc/{each}/{file}").read_text()
        except (FileNotFoundError, ProcessLookupError):
            if each == pid:
                raise
