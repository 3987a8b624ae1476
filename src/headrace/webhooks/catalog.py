"""The definitions of webhooks in the data folder.

    <data_dir>/webhooks/in/<name>.json     a source whose requests become events
                       /out/<name>.json    a callback that gets events
                       /in/.lock           held while a definition is changed

A file is readable by its owner only, because it has secrets, and it is replaced atomically. A process that runs
webhooks looks at the folder again: `look` reads only what has changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from headrace.files import replace_json
from headrace.names import did_you_mean
from headrace.sync import sync_directory
from headrace.webhooks.errors import BadWebhook, DamagedDefinition, NoSuchWebhook

NAME_CHARACTERS_MAX = 100
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")

DEFINITIONS_MAX = 10_000
"""Each of them is a file, and in memory in the process that runs webhooks."""

DEFINITION_BYTES_MAX = 1_000_000
"""A larger file was not written here."""

_SUFFIX = ".json"


class Definition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What both kinds have. A subclass raises BadWebhook in its `check`."""

    name: str

    def check(self) -> None:
        """Raise BadWebhook if fields do not fit together."""


DefinitionT = TypeVar("DefinitionT", bound=Definition)

Stamp = tuple[int, int, int]
"""Of a file: another one if it was replaced."""


class Look(Struct, Generic[DefinitionT], frozen=True, kw_only=True):
    """What is in the folder."""

    definitions: Mapping[str, DefinitionT]
    damaged: Mapping[str, DamagedDefinition]


def check_name(name: str) -> None:
    """Raise BadWebhook if it can't be a name: it is part of a path, of a URL, and of names of topics and groups."""
    if not _NAME.fullmatch(name) or len(name) > NAME_CHARACTERS_MAX:
        raise BadWebhook(
            f"{name[:NAME_CHARACTERS_MAX]!r} can't be the name of a webhook",
            hint=f"use a-z, 0-9, '.', '_' and '-', a letter or digit first, at most {NAME_CHARACTERS_MAX}",
        )


class Catalog(Generic[DefinitionT]):
    """The definitions of one kind: `direction` is "in" or "out"."""

    def __init__(self, data_dir: Path, direction: str, kind: type[DefinitionT]) -> None:
        self.folder = data_dir.absolute() / "webhooks" / direction
        self._direction = direction
        self._kind: Any = kind
        self._seen: dict[str, tuple[Stamp, DefinitionT | DamagedDefinition]] = {}

    # --- reading ---

    def names(self) -> list[str]:
        try:
            files = [each.name for each in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        names = (each.removesuffix(_SUFFIX) for each in files if each.endswith(_SUFFIX))
        return sorted(each for each in names if _NAME.fullmatch(each))

    def get(self, name: str) -> DefinitionT:
        names = self.names()
        if name not in names:
            raise NoSuchWebhook(
                f"there is no webhook {self._direction} {name} in {self.folder}",
                hint=did_you_mean(name, names) or f"`headrace webhook {self._direction} add` adds one",
            )
        return self._read(name)

    def find(self, name: str) -> DefinitionT | None:
        """None if there is no such webhook, or can't be. The file is read again only if it has changed."""
        if not _NAME.fullmatch(name):
            return None
        try:
            stamp = self._stamp(name)
            before = self._seen.get(name)
            if before is None or before[0] != stamp:
                before = self._seen[name] = (stamp, self._try_read(name))
        except (NoSuchWebhook, OSError):
            self._seen.pop(name, None)
            return None
        if isinstance(before[1], DamagedDefinition):
            raise before[1]
        return before[1]

    def all(self) -> list[DefinitionT]:
        """All definitions; DamagedDefinition for the first file that is damaged."""
        return [self.get(each) for each in self.names()]

    def look(self) -> Look[DefinitionT]:
        """What is in the folder now. Files that have not changed since the last look are not read again."""
        seen: dict[str, tuple[Stamp, DefinitionT | DamagedDefinition]] = {}
        for name in self.names():
            try:
                stamp = self._stamp(name)
                before = self._seen.get(name)
                found = before[1] if before and before[0] == stamp else self._try_read(name)
            except (NoSuchWebhook, FileNotFoundError):
                continue  # it was removed meanwhile
            seen[name] = (stamp, found)
        self._seen = seen
        found_all = {name: found for name, (_stamp, found) in seen.items()}
        return Look(
            definitions={k: v for k, v in found_all.items() if not isinstance(v, DamagedDefinition)},
            damaged={k: v for k, v in found_all.items() if isinstance(v, DamagedDefinition)},
        )

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{_SUFFIX}"

    def _stamp(self, name: str) -> Stamp:
        found = self._path(name).stat()
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _try_read(self, name: str) -> DefinitionT | DamagedDefinition:
        try:
            return self._read(name)
        except DamagedDefinition as error:
            return error

    def _read(self, name: str) -> DefinitionT:
        path = self._path(name)
        try:
            with path.open("rb") as file:
                content = file.read(DEFINITION_BYTES_MAX)
            definition: DefinitionT = msgspec.json.decode(content, type=self._kind)
            definition.check()
        except FileNotFoundError:
            raise NoSuchWebhook(
                f"there is no webhook {self._direction} {name} in {self.folder}", hint="it was just removed"
            ) from None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, BadWebhook) as error:
            # The message of a decoder has names and positions, and no values.
            problem = error.message if isinstance(error, BadWebhook) else str(error)
            raise DamagedDefinition(
                f"{path} is damaged: {problem}",
                hint=f"correct it, or `headrace webhook {self._direction} remove {name}` and add it again",
            ) from error
        if definition.name != name:
            raise DamagedDefinition(
                f"{path} is damaged: its name is {definition.name[:NAME_CHARACTERS_MAX]!r}",
                hint="a definition is not renamed: remove it and add it again",
            )
        return definition

    # --- changing ---

    def add(self, definition: DefinitionT) -> None:
        with self._changing():
            names = self.names()
            if definition.name in names:
                raise BadWebhook(
                    f"there is a webhook {self._direction} {definition.name} already",
                    hint=f"choose another name, or `headrace webhook {self._direction} remove {definition.name}`",
                )
            if len(names) >= DEFINITIONS_MAX:
                raise BadWebhook(
                    f"there are {len(names):,} webhooks {self._direction}", hint="remove one that is not used"
                )
            self._write(definition)

    def replace(self, definition: DefinitionT) -> None:
        """Replace an existing definition of the same name."""
        self.change(definition.name, lambda _old: definition)

    def change(self, name: str, change: Callable[[DefinitionT], DefinitionT]) -> DefinitionT:
        """Replace a definition by what the function makes of it; no other change comes in between."""
        with self._changing():
            new = change(self.get(name))
            assert new.name == name, "a definition is not renamed"
            self._write(new)
        return new

    def remove(self, name: str) -> None:
        """Also a damaged one."""
        with self._changing():
            if name not in self.names():
                self.get(name)
            self._path(name).unlink()
            sync_directory(self.folder)

    def _write(self, definition: DefinitionT) -> None:
        check_name(definition.name)
        definition.check()
        replace_json(self._path(definition.name), definition, durable=True, private=True)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        with (self.folder / ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
