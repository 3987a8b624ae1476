"""A rebuild: a new version from the first offset, beside the one that is served, and the switch.

    1  the new version is recorded, and its job reads everything that there is
    2  the process that runs the view hands it over: its job is drained, readers still have the old version
    3  both versions are brought to the same position, and compared
    4  the switch (`switching`), and the old version is deleted

The rebuild has jobs of its own, and so checkpoints, groups and fences. Before the switch nothing of the old version
has changed but its position. A rebuild that was killed is continued by the next one with the same definition.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from headrace.errors import HeadraceError
from headrace.kafka.position import Position
from headrace.views import comparison, switching
from headrace.views.catalog import ViewFolder
from headrace.views.comparison import Comparison
from headrace.views.definition import Definition
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.jobs import checkpoint_of, ends_of, letters_topic
from headrace.views.points import reached
from headrace.views.stores import open_store
from headrace.views.version_jobs import BadEvents, Progress, RebuildStopped, VersionJobs

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster

LOOK_S = 0.2

HANDOVER_S_MAX = 180.0
"""The batch in flight ends first, and a job drains for at most a minute."""

PASSES_MAX = 5
"""While a version was built, records were written. Each pass reads those of the pass before; the last few are read
after the handover."""

LAG_SMALL = 10_000
"""Records that are read within a second or so: the rest can wait for the handover."""


class RebuildOptions(Struct, frozen=True, kw_only=True):
    skip_bad: bool = False
    accept_differences: bool = False


class Rebuild:
    """Of one view, or of several that switch together. Holds their rebuild locks while it runs."""

    def __init__(
        self,
        definitions: Mapping[ViewFolder, Definition],
        *,
        jobs: VersionJobs,
        cluster: Cluster,
        options: RebuildOptions,
    ) -> None:
        self._definitions = definitions
        self._folders = {folder.name: folder for folder in definitions}
        self._jobs = jobs
        self._cluster = cluster
        self._options = options

    def run(self) -> dict[str, Comparison]:
        """Returns what was compared, by view."""
        with self._locks():
            for folder, definition in self._definitions.items():
                self._record_version(folder, definition)
            reached("version-recorded")
            self._build()
            reached("version-built")
            with self._handover():
                return self._compare_and_switch()

    # The locks

    @contextlib.contextmanager
    def _locks(self) -> Iterator[None]:
        with contextlib.ExitStack() as held:
            for folder in self._definitions:
                if not folder.rebuild_lock.take():
                    raise BadView(
                        f"view {folder.name} is being rebuilt by another process",
                        hint="one rebuild at a time; wait for it",
                    )
                held.callback(folder.rebuild_lock.release)
                held.callback(folder.end_handover)
            yield

    @contextlib.contextmanager
    def _handover(self) -> Iterator[None]:
        """The served versions are drained and ours, inside."""
        self._jobs.show(Progress(step="waiting for the handover"))
        with contextlib.ExitStack() as held:
            for folder in self._definitions:
                folder.request_handover()
            deadline_s = time.monotonic() + HANDOVER_S_MAX
            for folder in self._definitions:
                while not folder.lock.take():
                    self._jobs.check_stop()
                    if time.monotonic() > deadline_s:
                        raise ViewUnavailable(
                            f"the process that runs view {folder.name} did not hand it over",
                            hint="is it suspended? The same command continues the rebuild",
                        )
                    time.sleep(LOOK_S)
                held.callback(folder.lock.release)
            yield

    # The new version

    def _record_version(self, folder: ViewFolder, definition: Definition) -> None:
        """Continue a version that an earlier rebuild has left, if it is the same and has no bad records."""
        switching.recover(folder, self._cluster)
        record = folder.record()
        if record.building is not None:
            is_same = record.versions[record.building] == definition and not definition.script
            has_letters = letters_topic(folder.name, record.building) in self._cluster.topics()
            if is_same and (self._options.skip_bad or not has_letters):
                return
            self._abandon(folder)
        store = open_store(definition, folder.data_dir)
        try:
            store.check()
        finally:
            store.close()
        folder.write_record(folder.record().with_building(definition))

    def _abandon(self, folder: ViewFolder) -> None:
        folder.write_record(folder.record().without_building())
        switching.clean_up(folder, self._cluster)

    def _abandon_all(self) -> None:
        for folder in self._definitions:
            self._abandon(folder)

    def _building(self, folder: ViewFolder) -> int:
        building = folder.record().building
        assert building is not None
        return building

    def _build(self) -> None:
        for _ in range(PASSES_MAX):
            self._run_new("building", {folder: self._building(folder) for folder in self._definitions})
            if self._lag() <= LAG_SMALL:
                return

    def _run_new(
        self,
        step: str,
        versions: Mapping[ViewFolder, int],
        until: Mapping[ViewFolder, tuple[str, ...]] | None = None,
    ) -> None:
        """Let new versions read what there is now, or until these offsets."""
        try:
            self._jobs.run(versions, step, until=until, skip_bad=self._options.skip_bad)
        except BadEvents:
            self._abandon_all()
            raise

    def _lag(self) -> int:
        """Records that the new versions have not read."""
        lag = 0
        for folder, definition in self._definitions.items():
            position = Position.from_fence(self._ends(folder, self._building(folder)))
            for topic in definition.topics:
                partitions = self._cluster.partitions(topic)
                for partition, end in self._cluster.latest(partitions).items():
                    lag += max(0, end - position.offsets.get(topic, {}).get(partition.number, 0))
        return lag

    # The comparison

    def _compare_and_switch(self) -> dict[str, Comparison]:
        served = {folder: _served(folder) for folder in self._definitions}
        comparable = {
            folder: version
            for folder, version in served.items()
            if version is not None and self._is_comparable(folder, version)
        }
        self._bring_together(comparable)
        others = {folder: self._building(folder) for folder in self._definitions if folder not in comparable}
        if others:
            self._run_new("reading the last records", others)
        reached("old-drained")
        self._jobs.show(Progress(step="comparing"))
        compared = {
            folder.name: self._compare(folder, version, exactly=folder in comparable)
            for folder, version in served.items()
            if version is not None
        }
        reached("compared")
        self._jobs.show(Progress(step="switching"))
        switching.switch(self._folders, self._cluster)
        return compared

    def _is_comparable(self, folder: ViewFolder, served: int) -> bool:
        """Whether both versions are of the same definition. Its columns are found again by each version, and the
        function of a script may have changed."""
        old, new = folder.record().versions[served], self._definitions[folder]
        is_trusted = not (new.script and self._options.accept_differences)
        return is_trusted and replace(old, schemas={}) == replace(new, schemas={})

    def _bring_together(self, served: Mapping[ViewFolder, int]) -> None:
        """Both versions of each view to the same position: the old one first, as it may be behind."""
        behind = {
            folder: version
            for folder, version in served.items()
            if not self._is_drained_after(folder, version)
        }
        try:
            self._jobs.run(behind, "updating the old version", skip_bad=True)
        except RebuildStopped:
            raise
        except HeadraceError as error:
            if not self._options.accept_differences:
                raise BadView(
                    f"the old version cannot be brought to the position of the new one: {error.message}",
                    hint="--accept-differences switches without a comparison of rows",
                ) from error
        ends = {folder: self._ends(folder, version) for folder, version in served.items()}
        movable = {
            folder: self._building(folder)
            for folder in served
            if ends[folder] and len(self._ends(folder, self._building(folder))) == len(ends[folder])
        }
        self._run_new("reading the last records", movable, ends)

    def _is_drained_after(self, folder: ViewFolder, version: int) -> bool:
        """Whether the old version was drained between two batches, and is at least where the new one is."""
        checkpoint = checkpoint_of(folder.name, version, folder.data_dir)
        is_drained = checkpoint.planned_batch() == checkpoint.committed_batch()
        new = Position.from_fence(self._ends(folder, self._building(folder)))
        return is_drained and Position.from_fence(self._ends(folder, version)).includes(new)

    def _ends(self, folder: ViewFolder, version: int) -> tuple[str, ...]:
        return ends_of(folder.name, version, folder.data_dir)

    def _compare(self, folder: ViewFolder, old: int, *, exactly: bool) -> Comparison:
        new = self._building(folder)
        record = folder.record()
        old_store = open_store(record.versions[old], folder.data_dir)
        new_store = open_store(record.versions[new], folder.data_dir)
        try:
            is_same_place = self._ends(folder, old) == self._ends(folder, new)
            if exactly and is_same_place and comparison.have_same_columns(new_store, old, new):
                found = comparison.compare(new_store, old, new)
            else:
                found = comparison.counts_of(old_store, old, new_store, new)
        finally:
            old_store.close()
            new_store.close()
        is_wrong = not found.is_equal if found.compared else found.is_emptied
        if is_wrong and not self._options.accept_differences:
            self._abandon_all()
            raise _differ(folder.name, found)
        return found


def _differ(view: str, found: Comparison) -> BadView:
    rows = f"{found.new_rows:,} rows instead of {found.old_rows:,}"
    details = comparison.shown(found.differences)
    return BadView(
        f"the new version of view {view} is not like the old one, which is served as before: {rows}"
        + (f"; {details}" if details else ""),
        hint="--accept-differences switches all the same: do so if the old rows were wrong, or depend on the time "
        "of their processing",
    )


def _served(folder: ViewFolder) -> int | None:
    store = folder.store()
    try:
        return store.served()
    finally:
        store.close()
