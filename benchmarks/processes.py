"""What the kernel says about a running process and its children: CPU time, resident memory, bytes written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_UTIME_FIELD = 11  # counted from the field after the command's name, which may itself hold spaces
_STIME_FIELD = 12


def process_tree(pid: int) -> list[int]:
    """The process and all its descendants that live now."""
    tree = [pid]
    for parent in tree:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                tree.extend(int(child) for child in children.read_text().split())
            except FileNotFoundError:  # a thread that ended since the folder was listed
                continue
    return tree


def cpu_s(pid: int) -> float:
    """User and system time that the process tree has used, all threads together; in steps of 10 ms."""
    ticks = 0
    for text in _told(pid, "stat"):
        fields = text.rpartition(")")[2].split()
        ticks += int(fields[_UTIME_FIELD]) + int(fields[_STIME_FIELD])
    return ticks / _TICKS_PER_S


def resident_mb(pid: int) -> float:
    """Resident memory of the process tree. Pages that processes share count in each of them."""
    pages = sum(int(text.split()[1]) for text in _told(pid, "statm"))
    return pages * _PAGE_BYTES / 1e6


def written_bytes(pid: int) -> int:
    """What the process tree has given to the file systems, all that lives now; not what went through pipes."""
    total = 0
    for text in _told(pid, "io"):
        counts = dict(line.split(": ") for line in text.splitlines())
        total += int(counts["write_bytes"])
    return total


def _told(pid: int, file: str) -> Iterator[str]:
    """Of each process of the tree; a child that has ended since the tree was listed says nothing any more."""
    for each in process_tree(pid):
        try:
            yield Path(f"/proc/{each}/{file}").read_text()
        except (FileNotFoundError, ProcessLookupError):
            if each == pid:
                raise
