"""The files of topics, `metadata/topics/NAME.json`: their content, with a checksum.

A file that has changed, and folders with records that are in no file, are rejected: a topic with another name, other
partitions or other settings would lose records silently.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from zlib import crc32

from msgspec import Struct, convert, to_builtins

from headrace.errors import HeadraceError
from headrace.log.filesystem import FileSystem

# File systems allow 255 bytes with the suffix `.json.tmp`; the file of a longer name is named after its id.
FILE_STEM_CHARACTERS_MAX = 240
_SEGMENT_FILE = re.compile(r"\d{20}\.log")


class SavedTopic(Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"is_deleting": "deleting"}):
    name: str
    id: uuid.UUID
    partitions: int
    configs: Mapping[str, str]
    is_deleting: bool = False
    """Its deletion has started; the next start completes it."""


class TopicFiles:
    def __init__(self, files: FileSystem, data_dir: str) -> None:
        self._files = files
        self._data_dir = data_dir
        self._folder = os.path.join(data_dir, "metadata", "topics")

    def read_all(self) -> Iterator[SavedTopic]:
        """Every topic; raises HeadraceError for a file that was changed."""
        self._files.make_directory(self._folder)
        for name, _ in sorted(self._files.list_directory(self._folder)):
            if name.endswith(".json"):
                yield self._read(os.path.join(self._folder, name))

    def _read(self, path: str) -> SavedTopic:
        try:
            fields = json.loads(self._files.read_whole(path))
            # A file of an older version, or one written by hand, has no checksum.
            checksum = fields.pop("checksum", None)
            if checksum is not None and checksum != _checksum(fields):
                raise ValueError("its checksum does not match")
            saved = convert(fields, SavedTopic, strict=False)
            if self._path(saved.name, saved.id) != path:
                raise ValueError(f"it is the file of the topic {saved.name!r}")
        except (ValueError, TypeError, AttributeError) as error:
            raise HeadraceError(
                f"{path} is damaged: {error}",
                hint="restore this file from a copy, or remove the checksum from it if the change is intended; "
                "the partition folders are intact",
            ) from error
        return saved

    def write(self, saved: SavedTopic) -> None:
        fields: dict[str, object] = to_builtins(saved)
        fields["checksum"] = _checksum(fields)
        self._files.write_whole(self._path(saved.name, saved.id), json.dumps(fields, indent=1).encode())

    def remove(self, name: str, topic_id: uuid.UUID) -> None:
        self._files.remove(self._path(name, topic_id))
        self._files.sync_directory(self._folder)

    def _path(self, name: str, topic_id: uuid.UUID) -> str:
        stem = name if len(name) <= FILE_STEM_CHARACTERS_MAX else str(topic_id)
        return os.path.join(self._folder, f"{stem}.json")

    def reject_unknown_folders(self, partitions: Mapping[str, int]) -> None:
        """Raise HeadraceError for folders with records of other partitions (number of partitions by topic)."""
        unknown: dict[str, int] = {}
        for name in os.listdir(self._data_dir):
            topic, _, index = name.rpartition("-")
            if index.isdigit() and int(index) >= partitions.get(topic, 0) and self._holds_records(name):
                unknown[topic] = max(unknown.get(topic, 0), int(index) + 1)
        for topic, count in sorted(unknown.items()):
            content = json.dumps({"name": topic, "id": str(uuid.uuid4()), "partitions": count, "configs": {}})
            raise HeadraceError(
                f"{os.path.join(self._data_dir, topic)}-{count - 1} holds records, but no topic has this partition: "
                f"{os.path.join(self._folder, topic)}.json is missing or was changed",
                hint=f"restore the file from a copy; without one, write {content} to it, or move the folder away",
            )

    def _holds_records(self, name: str) -> bool:
        folder = os.path.join(self._data_dir, name)
        return os.path.isdir(folder) and any(
            size_bytes and _SEGMENT_FILE.fullmatch(file)
            for file, size_bytes in self._files.list_directory(folder)
        )


class ArchiveDeletions:
    """Deleted topics whose archive is still to be deleted: `metadata/archive-deletions/TOPIC-ID`.

    A file each, so that none is lost by a crash or an outage.
    """

    def __init__(self, files: FileSystem, data_dir: str) -> None:
        self._files = files
        self._directory = os.path.join(data_dir, "metadata", "archive-deletions")

    def note(self, topic_id: object, topic: str) -> None:
        """Durable when this returns."""
        self._files.make_directory(self._directory)
        self._files.write_whole(os.path.join(self._directory, str(topic_id)), f"{topic}\n".encode())

    def pending(self) -> list[str]:
        """Ids of the topics."""
        try:
            names = [name for name, _ in self._files.list_directory(self._directory)]
        except FileNotFoundError:
            return []
        return [name for name in names if not name.endswith(".tmp")]

    def done(self, topic_id: str) -> None:
        self._files.remove(os.path.join(self._directory, topic_id))


def _checksum(fields: Mapping[str, object]) -> str:
    return f"{crc32(json.dumps(fields, sort_keys=True).encode()):08x}"
