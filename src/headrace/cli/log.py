"""`headrace log`: look into the files of a log, and mend a damaged one. No broker is asked."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.output import Format, OutputFormat, format_time
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.log.dump import Dumped, DumpedBatch

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Look into the files of a log, and mend one.",
)


@app.callback()
def log() -> None:
    """Look into the files of a log, and mend one."""
    # Without it Typer takes a group of one command for the command itself: `log dump FILE` would not be known.


class DamageFound(HeadraceError):
    """A dump that met something wrong."""


@app.command()
def dump(
    path: Annotated[
        Path, typer.Argument(metavar="SEGMENT|FOLDER", help="A file, or a partition's folder with all.")
    ],
    records: Annotated[bool, typer.Option("--records", help="Show the records of each batch too.")] = False,
    format: Format = OutputFormat.TEXT,
) -> None:
    """Show the batches of a segment, or the entries of an index, snapshot or checkpoint file.

    It reads the files of Apache Kafka as well. Damage is shown where it is, and makes the exit code 1.

    \b
    headrace log dump data/clicks-0
    headrace log dump data/clicks-0/00000000000000000000.log --records
    headrace log dump data/clicks-0/00000000000000000000.timeindex --format json
    """
    from headrace.log.dump import dump as dump_file

    problems = 0
    try:
        for file in _files(path):
            if format is OutputFormat.TEXT:
                print(f"{file}:")
            for item in dump_file(file, with_records=records):
                problems += _is_problem(item)
                if format is OutputFormat.JSON:
                    print(json.dumps({"file": str(file), **_as_json(item)}, ensure_ascii=False))
                else:
                    print("\n".join(f"  {line}" for line in _as_text(item)))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has had enough (`| head`); Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if problems:
        raise DamageFound(
            f"{problems} places are not as they should be",
            hint="stop the broker and run `headrace log repair FOLDER`, which says what it would do first",
        )


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    found = sorted(
        each for each in path.iterdir() if each.suffix in (".log", ".index", ".timeindex", ".snapshot")
    )
    if not found:
        raise DamageFound(
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
        yield " ".join(f"{name}={_shown(value)}" for name, value in dataclasses.asdict(item).items())


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
    if not batch.is_checksum_right:
        yield "  DAMAGED: the checksum does not match"
    if batch.problem is not None:
        yield f"  DAMAGED: {batch.problem}"
    for record in batch.records:
        headers = "".join(f" {name}={_shown(value)}" for name, value in record.headers)
        yield (
            f"  offset={record.offset} time={_time(record.timestamp_ms)} "
            f"key={_shown(record.key)} value={_shown(record.value)}{headers}"
        )


def _as_json(item: Dumped) -> dict[str, Any]:
    values = {name: _json_value(value) for name, value in dataclasses.asdict(item).items()}
    return {"kind": type(item).__name__.removeprefix("Dumped").lower(), **values}


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, dict):
        return {name: _json_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(inner) for inner in value]
    return value


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
