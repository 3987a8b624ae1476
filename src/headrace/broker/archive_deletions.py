"""Deleted topics whose archive is still to be deleted: a file each, so that none is lost by a crash or an outage."""

from __future__ import annotations

import os

from headrace.log.filesystem import FileSystem


class ArchiveDeletions:
    """`metadata/archive-deletions/TOPIC-ID` in the data folder."""

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
