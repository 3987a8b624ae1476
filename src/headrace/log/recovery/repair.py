"""Repairing a damaged partition while no broker runs: every valid batch is kept, and lost offsets are reported.

A segment is split where bytes are lost, so that the name of the second part has its offset. A batch whose offset or
epoch alone is damaged (its checksum does not cover them) is restored. The damaged file is kept beside the new ones as
`.damaged`. Lost offsets are written to `lost-offsets-checkpoint`, where the next start finds them, and an empty
segment after lost records at the end prevents that their offsets are used again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from headrace.log import checkpoints
from headrace.log.damage import Damage
from headrace.log.errors import InvalidFile, LogError
from headrace.log.filesystem import FileSystem
from headrace.log.recovery.leftovers import REPAIRED_SUFFIX
from headrace.log.recovery.segment_checker import Recovery, SegmentChecker
from headrace.log.recovery.snapshots import snapshot_offsets, snapshot_path
from headrace.log.segment import Segment
from headrace.log.segment_names import (
    ABORTED_INDEX_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    segment_bases,
    segment_name,
    segment_path,
)
from headrace.records.batch import (
    BASE_OFFSET_POSITION,
    HEADER_BYTES,
    MAGIC,
    MAGIC_POSITION,
    checksum_matches,
    read_header,
)

Known = TypeVar("Known")

DAMAGED_SUFFIX = ".damaged"
COPY_BYTES = 1024 * 1024


class Part(Struct, frozen=True, kw_only=True):
    """Bytes of the damaged file that are kept. A prefix, if given, replaces the first of them."""

    position: int
    end_position: int
    prefix: bytes = b""


class Piece(Struct, frozen=True, kw_only=True):
    """A new segment, made of parts that follow each other without a loss between them."""

    base_offset: int
    parts: tuple[Part, ...]


class SegmentRepair(Struct, frozen=True, kw_only=True):
    """The damage of a segment, and its replacement."""

    path: str
    lost: tuple[Damage, ...]
    restored: tuple[Damage, ...]
    """Batches whose offset or epoch is restored; nothing of them is lost."""
    pieces: tuple[Piece, ...]

    @property
    def lost_offsets(self) -> int:
        return sum(damage.next_offset - damage.first_offset for damage in self.lost)

    @property
    def lost_bytes(self) -> int:
        return sum(damage.end_position - damage.position for damage in self.lost)


class RepairPlan(Struct, frozen=True, kw_only=True):
    """Everything that `repair` would do to a partition; empty if it is not damaged."""

    directory: str
    segments: tuple[SegmentRepair, ...]
    lost: tuple[tuple[int, int], ...]
    """(first, next offset) of each range that earlier repairs have recorded as lost."""


def plan_repair(directory: str | os.PathLike[str], *, files: FileSystem) -> RepairPlan:
    """Read the whole partition and find its damage. Changes nothing."""
    folder = os.fspath(directory)
    sizes = dict(files.list_directory(folder))
    bases = segment_bases(sizes)
    if not bases:
        raise LogError(
            f"{folder} has no segments",
            hint="name the folder of one partition, such as data/clicks-0",
        )
    known = _known(files, folder)
    repairs = []
    for number, base in enumerate(bases):
        next_base = bases[number + 1] if number + 1 < len(bases) else None
        segment = Segment(
            files=files,
            stem=segment_path(folder, base),
            base_offset=base,
            size_bytes=sizes[segment_name(base) + LOG_SUFFIX],
        )
        recovery = replace(known, damages=[])
        SegmentChecker(recovery, segment, next_base_offset=next_base, is_last=False).check(base)
        damages = [damage for damage in recovery.damages if not _is_torn_tail(damage, next_base)]
        if damages:
            repairs.append(_plan_segment(segment, damages, recovery, next_base))
        segment.release()
    return RepairPlan(directory=folder, segments=tuple(repairs), lost=tuple(known.lost))


def repair(plan: RepairPlan, *, files: FileSystem) -> None:
    """Carry a plan out. No broker may have the folder open. Interrupted, it can be planned and run again."""
    lost = {*plan.lost}
    for segment in plan.segments:
        lost.update((damage.first_offset, damage.next_offset) for damage in segment.lost)
    if len(lost) > len(plan.lost):
        path = os.path.join(plan.directory, checkpoints.LOST_OFFSETS_NAME)
        checkpoints.write_lost_offsets(files, path, lost)
    for segment in plan.segments:
        _repair_segment(plan.directory, segment, files)


def _known(files: FileSystem, folder: str) -> Recovery:
    """What is known about the partition besides its segments; an invalid file counts as missing."""

    def read(read_file: Callable[[FileSystem, str], Known], name: str, *, missing: Known) -> Known:
        try:
            return read_file(files, os.path.join(folder, name))
        except InvalidFile:
            return missing

    topic, _, partition = os.path.basename(os.path.abspath(folder)).rpartition("-")
    recovery_points: checkpoints.OffsetsByPartition = read(
        checkpoints.read_offsets, os.path.join(os.pardir, checkpoints.RECOVERY_POINT_NAME), missing={}
    )
    covered_offset = recovery_points.get((topic, int(partition)), 0) if partition.isdigit() else 0
    return Recovery(
        on_event=lambda name, fields: None,
        epochs=read(checkpoints.read_epochs, checkpoints.LEADER_EPOCH_NAME, missing=[]),
        is_dry_run=True,
        covered_offset=covered_offset,
        cleaned_offset=read(
            checkpoints.read_cleaner_offsets, checkpoints.CLEANER_OFFSET_NAME, missing=(0, 0)
        )[1],
        lost=read(checkpoints.read_lost_offsets, checkpoints.LOST_OFFSETS_NAME, missing=[]),
    )


def _is_torn_tail(damage: Damage, next_base: int | None) -> bool:
    """The broker truncates it when it opens the log."""
    return next_base is None and damage.next_offset == damage.first_offset


def _plan_segment(
    segment: Segment, damages: list[Damage], recovery: Recovery, next_base: int | None
) -> SegmentRepair:
    lost: list[Damage] = []
    restored: list[Damage] = []
    pieces: list[Piece] = []
    parts: list[Part] = []
    base, position = segment.base_offset, 0
    for damage in damages:
        if damage.position > position:
            parts.append(Part(position=position, end_position=damage.position))
        position = damage.end_position
        restored_parts = _restored_parts(segment, damage, recovery, next_base)
        if restored_parts:
            restored.append(damage)
            parts += restored_parts
            continue
        lost.append(damage)
        # The first piece is created even if it is empty: it replaces the damaged file.
        if parts or not pieces:
            pieces.append(Piece(base_offset=base, parts=tuple(parts)))
        base, parts = damage.next_offset, []
    if position < segment.size_bytes:
        parts.append(Part(position=position, end_position=segment.size_bytes))
    # At the end of the log even an empty piece: the next record gets the offset in its name.
    if parts or not pieces or next_base is None:
        pieces.append(Piece(base_offset=base, parts=tuple(parts)))
    if not restored and all(damage.position == damage.end_position for damage in lost):
        pieces = pieces[1:]  # the file itself is valid: only what follows it is missing
    return SegmentRepair(path=segment.path, lost=tuple(lost), restored=tuple(restored), pieces=tuple(pieces))


def _restored_parts(
    segment: Segment, damage: Damage, recovery: Recovery, next_base: int | None
) -> list[Part]:
    """The damaged batches with their correct offset, epoch and version; empty if more of them is damaged."""
    parts: list[Part] = []
    position, offset, is_own = damage.position, damage.first_offset, False
    while position < damage.end_position:
        left_bytes = damage.end_position - position
        if left_bytes < HEADER_BYTES:
            return []
        header = read_header(segment.read(HEADER_BYTES, position))
        if not HEADER_BYTES <= header.size_bytes <= left_bytes:
            return []
        batch = segment.read(header.size_bytes, position)
        if not checksum_matches(batch):
            return []
        # If its offset fits, another field is wrong. Compaction leaves gaps between offsets.
        is_own = offset <= header.base_offset <= damage.next_offset - header.last_offset_delta - 1
        first_offset = header.base_offset if is_own else offset
        prefix = _restored_prefix(batch, first_offset, recovery.epoch_at(first_offset))
        end_position = position + header.size_bytes
        parts.append(Part(position=position, end_position=end_position, prefix=prefix))
        position, offset = end_position, first_offset + header.last_offset_delta + 1
    fits = offset == damage.next_offset or is_own
    return parts if fits and offset <= (next_base or offset) else []


def _restored_prefix(batch: bytes, first_offset: int, epoch: int | None) -> bytes:
    head = bytearray(batch[: MAGIC_POSITION + 1])
    head[MAGIC_POSITION] = MAGIC
    head[BASE_OFFSET_POSITION : BASE_OFFSET_POSITION + 8] = first_offset.to_bytes(8, "big")
    if epoch is not None:
        head[12:16] = epoch.to_bytes(4, "big")
    return bytes(head)


def _repair_segment(folder: str, plan: SegmentRepair, files: FileSystem) -> None:
    source = files.open(plan.path)
    replaces = any(segment_path(folder, piece.base_offset) + LOG_SUFFIX == plan.path for piece in plan.pieces)
    try:
        if replaces:
            whole = Part(position=0, end_position=files.size(plan.path))
            _write(files, plan.path + DAMAGED_SUFFIX, source, [whole])
        for piece in plan.pieces:
            _write(files, segment_path(folder, piece.base_offset) + REPAIRED_SUFFIX, source, piece.parts)
    finally:
        files.close(source)
    if replaces:
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            with suppress(FileNotFoundError):
                files.remove(plan.path.removesuffix(LOG_SUFFIX) + suffix)
        _remove_aborted(folder, plan, files)
    # The later pieces first: as long as the damaged file has its name, this can be planned and run again.
    for piece in reversed(plan.pieces):
        stem = segment_path(folder, piece.base_offset)
        files.rename(stem + REPAIRED_SUFFIX, stem + LOG_SUFFIX)
    files.sync_directory(folder)


def _remove_aborted(folder: str, plan: SegmentRepair, files: FileSystem) -> None:
    """Each piece needs its own list of aborted transactions: without snapshots the next start rebuilds them."""
    path = plan.path.removesuffix(LOG_SUFFIX) + ABORTED_INDEX_SUFFIX
    names = [name for name, _ in files.list_directory(folder)]
    if os.path.basename(path) not in names:
        return
    for offset in snapshot_offsets(names):
        files.remove(snapshot_path(folder, offset))
    files.remove(path)


def _write(files: FileSystem, path: str, source: int, parts: tuple[Part, ...] | list[Part]) -> None:
    """Copy parts of the open source into a new file, and sync it."""
    fd = files.create(path)
    try:
        files.truncate(fd, 0)
        written = 0
        for part in parts:
            if part.prefix:
                files.write(fd, (part.prefix,), written)
                written += len(part.prefix)
            position = part.position + len(part.prefix)
            while position < part.end_position:
                chunk = files.read(source, min(COPY_BYTES, part.end_position - position), position)
                files.write(fd, (chunk,), written)
                position += len(chunk)
                written += len(chunk)
        files.sync(fd)
    finally:
        files.close(fd)
