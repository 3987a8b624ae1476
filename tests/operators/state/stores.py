"""The store of one bucket, in memory."""

from __future__ import annotations


class Store:
    """The state that Spark stores for one key."""

    def __init__(self) -> None:
        self.manifest: str | None = None
        self.runs: dict[str, bytes] = {}
        self.timers: set[int] = set()

    def read_manifest(self) -> str | None:
        return self.manifest

    def write_manifest(self, text: str) -> None:
        self.manifest = text

    def clear_manifest(self) -> None:
        self.manifest = None

    def read_run(self, name: str) -> bytes | None:
        return self.runs.get(name)

    def write_run(self, name: str, content: bytes) -> None:
        self.runs[name] = content

    def remove_run(self, name: str) -> None:
        del self.runs[name]

    def set_timer(self, before_ms: int | None, after_ms: int | None) -> None:
        if before_ms is not None:
            self.timers.remove(before_ms)
        if after_ms is not None:
            self.timers.add(after_ms)
