"""Removing a view: its name, its versions, its jobs and its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.views.catalog import ViewFolder
from headrace.views.errors import BadView
from headrace.views.jobs import delete_job
from headrace.views.stores import open_store

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster


def remove_view(folder: ViewFolder, cluster: Cluster) -> None:
    """The folder is deleted last, so that a removal that failed can be repeated."""
    if not folder.lock.take():
        raise BadView(f"view {folder.name} runs", hint="stop `headrace view run` first")
    try:
        if not folder.rebuild_lock.take():
            raise BadView(f"view {folder.name} is being rebuilt", hint="wait for the rebuild, or stop it")
        try:
            _remove(folder, cluster)
        finally:
            folder.rebuild_lock.release()
    finally:
        folder.lock.release()


def _remove(folder: ViewFolder, cluster: Cluster) -> None:
    record = folder.record()
    definitions = {**record.dropping, **record.versions}
    for definition in {(each.store, each.at): each for each in definitions.values()}.values():
        store = open_store(definition, folder.data_dir)
        try:
            store.drop_view()
        finally:
            store.close()
    for version in definitions:
        delete_job(folder.name, version, cluster=cluster, data_dir=folder.data_dir)
    folder.remove()
