"""A key store of encryption per person: destroying the key erases all that was encrypted with it, wherever it is."""

from __future__ import annotations

from pathlib import Path

from headrace.erasure.subject import Subject
from headrace.shredding import KeyStore


class PersonKeys:
    def __init__(self, path: Path) -> None:
        self.name = f"keys {path}"
        self._store = KeyStore(path)

    def remaining(self, subject: Subject) -> int:
        return self._store.live_keys(subject.column(""))

    def erase(self, subject: Subject) -> None:
        self._store.destroy(subject.column(""))
