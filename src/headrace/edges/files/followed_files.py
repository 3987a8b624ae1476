"""The files that are followed: found by their patterns, through renaming, truncation and deletion."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain

from headrace.edges.files.copies import Copies
from headrace.edges.files.descriptors import Descriptors
from headrace.edges.files.discovery import (
    Found,
    find,
    find_renamed,
    is_compressed,
    open_file,
    start_of_last_line,
)
from headrace.edges.files.followed_file import FollowedFile
from headrace.edges.files.lines import LineSplitter
from headrace.edges.files.marks import BEGINNING, Identity, Mark, fits, mark_at
from headrace.edges.files.multiline import Multiline
from headrace.edges.files.patterns import compiled
from headrace.edges.files.positions import Position, Positions
from headrace.edges.files.settings import FilesSettings


class FollowedFiles:
    """`on_problem` gets texts for people."""

    def __init__(
        self, settings: FilesSettings, positions: Positions, *, on_problem: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._positions = positions
        self._on_problem = on_problem
        start = settings.multiline_start
        self._is_start = None if start is None else compiled(start, option="--multiline-start").search
        self._files: dict[Identity, FollowedFile] = {}
        self._copies = Copies()
        self._descriptors = Descriptors(settings.open_files_max)
        self._compressed: set[Identity] = set()
        self.unreadable: dict[str, str] = {}
        """By path, why it can't be read now."""
        self.counts: Counter[str] = Counter()
        self._too_long_before = 0
        stored = positions.read()
        self._starts_at_end = stored is None and not settings.from_beginning
        self._stored = {each.identity: each for each in stored or () if not each.is_past}
        for each in stored or ():
            if each.is_past:
                self._copies.remember(each)
        self.look()
        self._starts_at_end = False
        self._find_stored()
        # A kill before the first line must not move the beginning.
        self.write_positions()

    def __iter__(self) -> Iterator[FollowedFile]:
        return iter([*self._files.values()])

    def __len__(self) -> int:
        return len(self._files)

    @property
    def open_files(self) -> int:
        return len(self._descriptors)

    @property
    def too_long(self) -> int:
        """Lines that were cut or skipped."""
        return self._too_long_before + sum(file.too_long for file in self._files.values())

    def write_positions(self) -> None:
        self._positions.write(
            [file.position for file in self._files.values()] + [*self._stored.values(), *self._copies.past]
        )

    def close(self) -> None:
        self._descriptors.close_all()
        self._positions.close()

    # --- looking for files ---

    def look(self) -> None:
        """Find new files, and those that were renamed, deleted or truncated."""
        before, self.unreadable = self.unreadable, {}
        at_paths: set[Identity] = set()
        # A new file may be a copy of one whose position is known: those come first.
        for found in sorted(find(self._settings.patterns, self._on_unreadable), key=self._is_unknown):
            at_paths.add(found.identity)
            file = self._files.get(found.identity)
            if file is None:
                self._begin(found)
            else:
                self._see(file, found)
        for identity, file in self._files.items():
            if file.is_at_path and identity not in at_paths:
                self.counts["rotated"] += 1
            file.is_at_path = identity in at_paths
            if not file.is_at_path and not file.is_gone and self.open(file):
                assert file.descriptor is not None
                file.size = max(os.fstat(file.descriptor).st_size, file.read_offset)
        self._compressed &= at_paths
        for path, reason in self.unreadable.items():
            if path not in before:
                self._on_problem(f"{path}: {reason}; the edge tries again")

    def _is_unknown(self, found: Found) -> bool:
        return found.identity not in self._stored and found.identity not in self._files

    def _on_unreadable(self, path: str, error: OSError) -> None:
        self.unreadable[path] = error.strerror or str(error)

    def _see(self, file: FollowedFile, found: Found) -> None:
        file.path = found.path
        if found.size == file.size:
            return
        if found.size < file.read_offset or not self._has_grown(file):
            self._restart(file, found)
        else:
            file.size = found.size

    def _has_grown(self, file: FollowedFile) -> bool:
        """Whether what was read is still there: a truncated file may be longer again."""
        return not self.open(file) or (file.descriptor is not None and fits(file.descriptor, file.read_mark))

    def _restart(self, file: FollowedFile, found: Found) -> None:
        """The file was truncated. What was not read of it is in its copy, if that is followed."""
        self.counts["truncated"] += 1
        past = Position(
            path=file.path, name=file.name, identity=file.identity, mark=file.read_mark, is_past=True
        )
        self._copies.remember(past)
        self._too_long_before += file.too_long
        self._descriptors.close(file)
        self._add(found, BEGINNING, name=found.path)

    # --- where a file is read from ---

    def _begin(self, found: Found) -> None:
        if found.identity in self._compressed:
            return
        try:
            descriptor = open_file(found.path, found.identity)
        except OSError as error:
            self._on_unreadable(found.path, error)
            return
        if descriptor is None:
            return
        mark = self._start(found, descriptor)
        if mark is None:
            os.close(descriptor)
            return
        stored = self._stored.pop(found.identity, None)
        name = stored.name if stored is not None and mark == stored.mark else found.path
        file = self._add(found, mark, name=name)
        self._descriptors.add(file, descriptor)

    def _start(self, found: Found, descriptor: int) -> Mark | None:
        """None: the file is not read now."""
        stored = self._stored.get(found.identity)
        if stored is not None:
            if fits(descriptor, stored.mark):
                return stored.mark
            self._copies.remember(
                Position(
                    path=stored.path,
                    name=stored.name,
                    identity=stored.identity,
                    mark=stored.mark,
                    is_past=True,
                )
            )
            return BEGINNING
        if is_compressed(descriptor):
            self._compressed.add(found.identity)
            self._on_problem(f"{found.path} is compressed, and not read")
            return None
        if self._starts_at_end:
            return mark_at(descriptor, start_of_last_line(descriptor, found.size))
        if self._copies.is_waiting(found.identity, descriptor, self._files):
            return None
        return self._copies.start(found.identity, descriptor) or BEGINNING

    def _find_stored(self) -> None:
        """Files that were renamed while the edge did not run, to a name that is not among the patterns."""
        stored, self._stored = self._stored, {}
        for each in stored.values():
            path = find_renamed(each.path, each.identity)
            descriptor = None
            if path is not None:
                try:
                    descriptor = open_file(path, each.identity)
                except OSError as error:
                    self._on_unreadable(path, error)
                    self._stored[each.identity] = each  # another run may read it
                    continue
            if path is None or descriptor is None or not fits(descriptor, each.mark):
                self.counts["gone"] += 1
                self._on_problem(
                    f"{each.path} is gone: what was behind its byte {each.mark.offset:,} is not read"
                )
                if descriptor is not None:
                    os.close(descriptor)
                continue
            found = Found(path, os.fstat(descriptor))
            file = self._add(found, each.mark, name=each.name)
            file.is_at_path = False
            self._descriptors.add(file, descriptor)

    def _add(self, found: Found, mark: Mark, *, name: str) -> FollowedFile:
        settings = self._settings
        file = FollowedFile(
            found.path,
            found.identity,
            mark,
            name=name,
            splitter=LineSplitter(
                mark.offset,
                line_bytes_max=settings.line_bytes_max,
                is_cut=settings.when_long == "cut",
            ),
            multiline=None
            if self._is_start is None
            else Multiline(self._is_start, bytes_max=settings.line_bytes_max),
        )
        file.size = found.size
        self._files[found.identity] = file
        return file

    # --- one file ---

    def open(self, file: FollowedFile) -> bool:
        """Whether the file can be read."""
        if file.descriptor is not None:
            self._descriptors.use(file)
            return True
        try:
            for path in chain([file.path], filter(None, [find_renamed(file.path, file.identity)])):
                descriptor = open_file(path, file.identity)
                if descriptor is not None:
                    self._descriptors.add(file, descriptor)
                    return True
        except OSError as error:
            self._on_unreadable(file.path, error)
            return False
        if not file.is_read:
            self.counts["gone"] += 1
            self._on_problem(
                f"{file.path} is gone: what was behind its byte {file.read_offset:,} is not read"
            )
        file.size, file.is_gone = file.read_offset, True
        return False

    def let_go(self, file: FollowedFile) -> None:
        """A file that was rotated, and is read and delivered."""
        self._descriptors.close(file)
        self._too_long_before += file.too_long
        del self._files[file.identity]
