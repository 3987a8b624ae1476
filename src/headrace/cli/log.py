"""`headrace log`: show the files of a log, and repair a damaged one. No broker is involved."""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from msgspec import Struct

from headrace.cli.command import command_group
from headrace.cli.output import Format, Shape, ended_by_closed_pipe, format_time, result, show
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.log.dump import Dumped, DumpedBatch

app = command_group("Show the files of a log, and repair a damaged one.")


@result("log dump", shape=Shape.LINES)
class JsonDumped(Struct, frozen=True, kw_only=True):
    """The fields of every line; the others are those of its kind."""

    file: str
    kind: Annotated[str, "batch, problem, or the kind of the file's entries; the fields of each kind follow"]


class DamagedPlace(Struct, frozen=True, kw_only=True):
    position: Annotated[int, "in the file"]
    end_position: int
    reason: str


class RepairedSegment(Struct, frozen=True, kw_only=True):
    path: str
    lost_offsets: int
    lost_bytes: int
    lost: list[DamagedPlace]
    restored: Annotated[list[DamagedPlace], "repaired without loss"]


@result("log repair")
class RepairedPartition(Struct, frozen=True, kw_only=True):
    folder: str
    is_repaired: Annotated[bool, "false without --yes, or if nothing is damaged"]
    segments: Annotated[list[RepairedSegment], "those with damage; empty if nothing is damaged"]


@app.command()
def dump(
    path: Annotated[
        Path, typer.Argument(metavar="SEGMENT|FOLDER", help="A file, or the folder of a partition.")
    ],
    records: Annotated[bool, typer.Option("--records", help="Show the records of each batch too.")] = False,
    format: Format = "text",
) -> None:
    """Show the batches of a segment, or the entries of an index, snapshot or checkpoint file.

    It reads the files of Apache Kafka as well. Damage is shown with its position, and the exit code is then 1.

    \b
    headrace log dump data/clicks-0
    headrace log dump data/clicks-0/00000000000000000000.log --records
    headrace log dump data/clicks-0/00000000000000000000.timeindex --format json
    """
    from headrace.log.dump import dump as dump_file

    problems = 0
    with ended_by_closed_pipe():
        for file in _files(path):
            if format == "text":
                print(f"{file}:")
            for item in dump_file(file, with_records=records):
                problems += _is_problem(item)
                if format == "json":
                    print(_as_json(file, item))
                else:
                    print("\n".join(f"  {line}" for line in _as_text(item)))
    if problems:
        raise HeadraceError(
            f"{problems} places are damaged",
            hint="`headrace log repair FOLDER` shows what can be repaired",
        )


@app.command()
def repair(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of one partition.")],
    yes: Annotated[
        bool, typer.Option("--yes", help="Repair it. Without this, only show what would be done.")
    ] = False,
    format: Format = "text",
) -> None:
    """Repair a damaged partition while no broker runs: all valid batches are kept, and lost offsets are reported.

    The damaged file is kept next to the new ones, as NAME.damaged. Without --yes nothing is changed, and the exit code
    is 1 if something is damaged.

    \b
    headrace log repair data/clicks-0
    headrace log repair data/clicks-0 --yes
    """
    from headrace.log.filesystem import DiskFileSystem
    from headrace.log.recovery.repair import plan_repair
    from headrace.log.recovery.repair import repair as carry_out

    if not folder.is_dir():
        raise HeadraceError(
            f"there is no folder {folder}", hint="give the folder of one partition, such as data/clicks-0"
        )
    files = DiskFileSystem()
    with _no_broker_on(folder.absolute().parent):
        plan = plan_repair(folder, files=files)
        if plan.segments and yes:
            carry_out(plan, files=files)
    repaired = RepairedPartition(
        folder=str(folder),
        is_repaired=bool(plan.segments) and yes,
        segments=msgspec.convert(plan.segments, list[RepairedSegment], from_attributes=True),
    )
    show(repaired, format, lambda: _print_repair(repaired))
    if repaired.segments and not yes:
        raise HeadraceError(f"{folder} is damaged, and nothing was changed", hint="add --yes to repair it")


def _print_repair(partition: RepairedPartition) -> None:
    for segment in partition.segments:
        typer.echo(f"{segment.path}: {segment.lost_offsets} offsets ({segment.lost_bytes} bytes) are lost")
        for damage in segment.lost:
            typer.echo(f"  position {damage.position} to {damage.end_position}: {damage.reason}")
        for damage in segment.restored:
            typer.echo(f"  position {damage.position}: repaired without loss: {damage.reason}")
    if not partition.segments:
        typer.echo(f"{partition.folder} is not damaged")
    elif partition.is_repaired:
        typer.echo(f"repaired {partition.folder}; the damaged files are kept as *.damaged")


@contextlib.contextmanager
def _no_broker_on(data_dir: Path) -> Iterator[None]:
    """Hold the lock of the data folder, so that no broker runs or starts at the same time."""
    lock = data_dir / ".lock"
    if not lock.exists():
        yield  # a copy of a partition, or Kafka's
        return
    with lock.open("r+b") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HeadraceError(f"a broker is using {data_dir}", hint="stop it first") from error
        yield


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    found = sorted(
        each for each in path.iterdir() if each.suffix in (".log", ".index", ".timeindex", ".snapshot")
    )
    if not found:
        raise HeadraceError(
            f"there are no segments in {path}", hint="give the folder of one partition, such as data/clicks-0"
        )
    yield from found


def _is_problem(item: Dumped) -> bool:
    from headrace.log.dump import DumpedBatch, DumpedProblem

    if isinstance(item, DumpedBatch):
        return item.problem is not None or not item.is_checksum_right
    return isinstance(item, DumpedProblem)


def _as_text(item: Dumped) -> Iterator[str]:
    from headrace.log.dump import DumpedBatch, DumpedProblem

    if isinstance(item, DumpedBatch):
        yield from _batch_as_text(item)
    elif isinstance(item, DumpedProblem):
        yield f"DAMAGED at position {item.position}: {item.message}"
    else:
        yield " ".join(f"{name}={_shown(value)}" for name, value in msgspec.structs.asdict(item).items())


def _batch_as_text(batch: DumpedBatch) -> Iterator[str]:
    header = batch.header
    kinds = {"transactional": header.is_transactional, "control": header.is_control}
    flags = [name for name, is_so in kinds.items() if is_so]
    yield (
        f"position={batch.position} offsets={header.base_offset}..{header.last_offset} "
        f"records={header.record_count} bytes={header.size_bytes} time={_time(header.max_timestamp_ms)} "
        f"codec={header.compression.name.lower()} "
        f"epoch={header.leader_epoch} producer={header.producer_id}:{header.producer_epoch} "
        f"sequence={header.base_sequence} {' '.join(flags)}"
    ).rstrip()
    if batch.problem is not None:
        yield f"  DAMAGED: {batch.problem}"
    elif not batch.is_checksum_right:
        yield "  DAMAGED: the checksum does not match"
    for record in batch.records:
        headers = "".join(f" {name}={_shown(value)}" for name, value in record.headers)
        yield (
            f"  offset={record.offset} time={_time(record.timestamp_ms)} "
            f"key={_shown(record.key)} value={_shown(record.value)}{headers}"
        )


def _as_json(file: Path, item: Dumped) -> str:
    kind = type(item).__name__.removeprefix("Dumped").lower()
    fields = msgspec.to_builtins(item, builtin_types=(bytes,))
    return json.dumps({"file": str(file), "kind": kind, **fields}, ensure_ascii=False, default=_shown)


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, tuple):
        return " ".join(str(each) for each in value)
    return "(null)" if value is None else str(value)


def _time(timestamp_ms: int) -> str:
    try:
        return format_time(timestamp_ms) if timestamp_ms >= 0 else "-"
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)  # a producer may write anything there
