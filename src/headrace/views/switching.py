"""The switch of one view or of several, and what is left to do after a crash in the middle of it.

Which version is served is recorded in the store (`Store.switch`), so the switch of one view, and of several in one
database, is one step. Views in several stores cannot switch in one step: a journal, which is written before, names all
of them. Whoever runs or rebuilds one of these views next completes the switch of all.

    <data_dir>/views/.switch-<first view>.json      the journal

After the switch the record of each view is written, and then the old version is deleted. Every step can be repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.errors import HeadraceError
from headrace.files import replace_json
from headrace.sync import sync_directory
from headrace.views.catalog import ViewFolder, ViewRecord, Views
from headrace.views.definition import Definition
from headrace.views.jobs import delete_job
from headrace.views.points import reached
from headrace.views.store import Store
from headrace.views.stores import open_store

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster

logger = logging.getLogger("headrace.views")

JOURNAL = ".switch-*.json"


class _Journal(Struct, frozen=True):
    versions: Mapping[str, int]


def switch(folders: Mapping[str, ViewFolder], cluster: Cluster | None) -> None:
    """Serve the versions that were built, delete the old ones. The caller holds both locks of each view."""
    records = {name: folder.record() for name, folder in folders.items()}
    building = {name: _built(record) for name, record in records.items()}
    data_dir = next(iter(folders.values())).data_dir
    journal = _journal_path(data_dir, building)
    if len(building) > 1:
        replace_json(journal, _Journal(building), durable=True)
    reached("journal-written")
    _switch_stores(folders, building)
    reached("store-switched")
    for folder in folders.values():
        _finish(folder)
    reached("record-written")
    _delete_journal(journal)
    reached("journal-deleted")
    for folder in folders.values():
        clean_up(folder, cluster)
    reached("old-dropped")


def recover(folder: ViewFolder, cluster: Cluster | None) -> None:
    """Complete a switch that a crash interrupted, and delete what it left. A version that is not complete stays: the
    next rebuild continues it. The caller holds the lock of the view; a rebuild that runs is not disturbed."""
    is_own = folder.rebuild_lock.is_held
    if not is_own and not folder.rebuild_lock.take():
        return
    try:
        folder.end_handover()
        _complete_journals(folder)
        if _is_switched(folder):
            _finish(folder)
        clean_up(folder, cluster)
    finally:
        if not is_own:
            folder.rebuild_lock.release()


def clean_up(folder: ViewFolder, cluster: Cluster | None) -> None:
    """Delete the versions that the record says are to be deleted. If a store is unavailable, the next call does it."""
    record = folder.record()
    for version, definition in record.dropping.items():
        try:
            _drop(definition, version, record, folder.data_dir)
            delete_job(record.name, version, cluster=cluster, data_dir=folder.data_dir)
        except HeadraceError as error:
            logger.warning("view %s: version %d was not deleted: %s", record.name, version, error)
            continue
        left = {number: each for number, each in folder.record().dropping.items() if number != version}
        folder.write_record(replace(folder.record(), dropping=left))


def _built(record: ViewRecord) -> int:
    assert record.building is not None
    return record.building


def _switch_stores(folders: Mapping[str, ViewFolder], building: Mapping[str, int]) -> None:
    """Those of one database together, in one transaction."""
    groups: dict[str, dict[Store, int]] = {}
    stores = {name: folders[name].store(version) for name, version in building.items()}
    try:
        for name, store in stores.items():
            groups.setdefault(store.switch_group or f"alone {name}", {})[store] = building[name]
        for group in groups.values():
            (first, version), *others = group.items()
            if others:
                first.switch_together(dict(others), version)
            else:
                first.switch(version)
    finally:
        for store in stores.values():
            store.close()


def _finish(folder: ViewFolder) -> None:
    record = folder.record()
    if record.building is not None:
        folder.write_record(record.switched())


def _is_switched(folder: ViewFolder) -> bool:
    record = folder.record()
    if record.building is None:
        return False
    store = folder.store(record.building)
    try:
        return store.served() == record.building
    finally:
        store.close()


def _complete_journals(folder: ViewFolder) -> None:
    """Roll forward. Another process may do the same for another view of the journal: each step can be repeated."""
    views = Views(folder.data_dir)
    for path in sorted(views.path.glob(JOURNAL)):
        try:
            versions = msgspec.json.decode(path.read_bytes(), type=_Journal).versions
        except FileNotFoundError:
            continue
        if folder.name not in versions:
            continue
        left = {}
        for name, version in versions.items():
            if name in views.names() and (each := views.folder(name)).record().building == version:
                left[name] = each
        _switch_stores(left, {name: versions[name] for name in left})
        for each in left.values():
            _finish(each)
        _delete_journal(path)


def _drop(definition: Definition, version: int, record: ViewRecord, data_dir: Path) -> None:
    store = open_store(definition, data_dir)
    try:
        if (definition.store, definition.at) == (record.definition.store, record.definition.at):
            store.drop(version)
        else:  # the view has moved to another store
            store.drop_view()
    finally:
        store.close()


def _journal_path(data_dir: Path, building: Mapping[str, int]) -> Path:
    return Views(data_dir).path / JOURNAL.replace("*", min(building))


def _delete_journal(path: Path) -> None:
    path.unlink(missing_ok=True)
    sync_directory(path.parent)
