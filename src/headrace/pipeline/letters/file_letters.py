"""Dead letters of files: rows that could not be parsed, with their file, line and reason.

Spark's own log in the checkpoint has the files of each batch. They are read a second time if a batch has bad rows.
"""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import Row, SparkSession

from headrace.dead_letters import FILE_HEADER, GROUP_HEADER, LINE_HEADER, REASON_HEADER, with_errors
from headrace.pipeline.folders.folder import Folder
from headrace.pipeline.sinks.transactional_batch import OutgoingMessage
from headrace.pipeline.source.files_spec import FilesSpec
from headrace.pipeline.source.read_files import FILE_COLUMN, READ, ROW, TEXT, bad_file_rows
from headrace.pipeline.source.read_topic import MISFITS, MISSING
from headrace.pipeline.source.reasons import Finding, file_reason

_LOCAL = ("", "file")
_LOG_OFFSET = "logOffset"
_COMPACT = ".compact"


def files_of_batch(log: Folder, start: str, end: str) -> tuple[str, ...]:
    """The addresses of the files between two offsets of Spark's file source, whose log is in this folder."""
    first, last = _log_offset(start) + 1, _log_offset(end)
    found: list[str] = []
    for number in range(first, last + 1):
        for line in _log_lines(log, number):
            entry = json.loads(line)
            if entry["batchId"] == number:
                found.append(entry["path"])
    return tuple(found)


def _log_offset(text: str) -> int:
    """-1 in front of the first file."""
    try:
        return int(json.loads(text)[_LOG_OFFSET])
    except (ValueError, KeyError, TypeError):
        return -1


def _log_lines(log: Folder, number: int) -> Iterable[str]:
    """The entries of a batch. Spark sometimes writes those of all batches into one file, and deletes the others."""
    for name in (str(number), f"{number}{_COMPACT}"):
        with contextlib.suppress(FileNotFoundError):
            return log.read(name).decode().splitlines()[1:]
    stems = (name.removesuffix(_COMPACT) for name in log.names() if name.endswith(_COMPACT))
    for later in sorted(int(stem) for stem in stems if stem.isdecimal() and int(stem) > number):
        with contextlib.suppress(FileNotFoundError):
            return log.read(f"{later}{_COMPACT}").decode().splitlines()[1:]
    return ()


def letters(
    spark: SparkSession, spec: FilesSpec, files: Iterable[str], job: str
) -> Iterator[OutgoingMessage]:
    """A letter for each bad row of these files."""
    paths = [unquote(file) for file in files]
    if not paths:
        return
    lines: dict[str, Lines] = {}
    for row in bad_file_rows(spark, spec, paths).toLocalIterator():
        yield _letter(row, spec, lines.setdefault(row[FILE_COLUMN], Lines(row[FILE_COLUMN])), job)


def _letter(row: Row, spec: FilesSpec, lines: Lines, job: str) -> OutgoingMessage:
    text = row[TEXT]
    finding = Finding(is_unreadable=text is not None, missing=row[MISSING], misfits=row[MISFITS])
    errors = {
        GROUP_HEADER: job,
        FILE_HEADER: readable(row[FILE_COLUMN]),
        REASON_HEADER: file_reason(spec.format, spec.schema, text, finding, row[READ]),
    }
    if text is not None and (number := lines.number_of(text)) is not None:
        errors[LINE_HEADER] = str(number)
    return OutgoingMessage(
        value=(row[ROW] if text is None else text).encode(), headers=with_errors((), errors)
    )


def readable(address: str) -> str:
    """The path of a file of this machine; of another file the address."""
    parts = urlsplit(address)
    return unquote(parts.path) if parts.scheme in _LOCAL else unquote(address)


class Lines:
    """Finds the lines of a file of this machine. Rows come in the order of their file, but for large files in parts."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._lines: Iterator[tuple[int, bytes]] = iter(())

    def number_of(self, text: str) -> int | None:
        """The number of the next line with this text; None if it is not found."""
        wanted = text.strip().encode()
        for attempt in range(2):
            for number, line in self._lines:
                if line.strip() == wanted:
                    return number
            if attempt == 0:
                self._lines = self._read()
        return None

    def _read(self) -> Iterator[tuple[int, bytes]]:
        if urlsplit(self._address).scheme not in _LOCAL:
            return
        path = readable(self._address)
        try:
            with gzip.open(path) if path.endswith(".gz") else Path(path).open("rb") as file:
                yield from enumerate(file, 1)
        except OSError:  # it was moved meanwhile
            return
