"""Small files that other processes read while they change."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from headrace.sync import sync_directory, sync_file


def replace_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Replace the file atomically: readers see the old text or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        if durable:
            file.flush()
            sync_file(file.fileno())
    beside.replace(path)
    if durable:
        sync_directory(path.parent)


def replace_json(path: Path, content: msgspec.Struct, *, durable: bool = False) -> None:
    replace_text(path, msgspec.json.format(msgspec.json.encode(content), indent=1).decode(), durable=durable)
