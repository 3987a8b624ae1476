"""What a follower of files reads, and its bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WhenLong = Literal["cut", "skip"]
KeyOf = Literal["file", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSettings:
    name: str
    """of the edge: of its positions, in metrics and dead letters"""
    patterns: tuple[str, ...]
    """as in a shell, `**` for folders of any depth"""
    topic: str
    from_beginning: bool = False
    """the files of the first start; by default they are followed from their end"""
    is_once: bool = False
    """end when all files are read to their end"""
    key_of: KeyOf = "file"
    """the path keeps the lines of a file in one partition, in order"""
    has_headers: bool = True
    line_bytes_max: int = 1_000_000
    """A topic with default configs takes a record of this size."""
    when_long: WhenLong = "cut"
    multiline_start: str | None = None
    """a regular expression (RE2) that the first line of an event matches"""
    multiline_wait_s: float = 1.0
    """after which an event is complete, if no line follows: longer than a program needs to write a stack trace"""
    partial_wait_s: float | None = None
    """after which a last line without its end is an event; None: it waits for its end"""
    poll_s: float = 0.25
    """between two looks at the files"""
    rotate_wait_s: float = 60.0
    """how long a renamed or deleted file is followed after its last line: its writer may still have it open"""
    open_files_max: int = 512
    """half of the descriptors that a process has by default"""
