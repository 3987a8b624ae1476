"""Small files that other processes read while they change."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from headrace.sync import sync_directory, sync_file


def replace_text(path: Path, text: str, *, durable: bool = False, private: bool = False) -> None:
    """Replace the file atomically: readers see the old text or the new one. A private one is only for its owner."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("w", encoding="utf-8") as file:
        if private:
            os.fchmod(file.fileno(), 0o600)
        file.write(text)
        if durable:
            file.flush()
            sync_file(file.fileno())
    beside.replace(path)
    if durable:
        sync_directory(path.parent)


def replace_json(
    path: Path, content: msgspec.Struct, *, durable: bool = False, private: bool = False
) -> None:
    text = msgspec.json.format(msgspec.json.encode(content), indent=1).decode()
    replace_text(path, text, durable=durable, private=private)


def replace_link(link: Path, target: str) -> None:
    """Let a symbolic link have this target, in one step: readers see the old target or the new one. Durable."""
    beside = link.with_name(f".{link.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    beside.symlink_to(target)
    beside.replace(link)
    sync_directory(link.parent)
