from __future__ import annotations

import threading

import pytest

from headrace.views.catalog import Views
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.served import ServedReader
from tests.contract.view_store_contract import Bench, user


def test_reads_never_fail_while_versions_are_switched_and_deleted(bench: Bench) -> None:
    bench.write(1, [user(1)])
    bench.store().switch(1)
    is_over = threading.Event()
    failures: list[Exception] = []
    versions: set[int] = set()

    def read() -> None:
        with ServedReader(Views(bench.lab.folder).folder("users")) as view:
            while not is_over.is_set():
                try:
                    found = view.read(
                        lambda reader, served: (served.version, reader.get({"id": served.version}))
                    )
                    assert found[1] is not None, "a row of another version"
                    versions.add(found[0])
                except Exception as error:
                    failures.append(error)
                    return

    reading = threading.Thread(target=read)
    reading.start()
    for version in range(2, 15):
        bench.write(version, [user(version)])
        bench.store().switch(version)
        bench.store().drop(version - 1)
    is_over.set()
    reading.join()
    assert failures == []
    assert len(versions) > 1


def test_version_that_is_deleted_without_a_switch_is_an_error(bench: Bench) -> None:
    bench.write(1, [user(1)])
    bench.store().switch(1)
    with ServedReader(Views(bench.lab.folder).folder("users")) as view:
        bench.store().drop(1)
        with pytest.raises(ViewUnavailable, match="version 1"):
            view.read(lambda reader, _: reader.columns())


def test_removed_view_is_an_error(bench: Bench) -> None:
    folder = Views(bench.lab.folder).folder("users")
    with ServedReader(folder) as view:
        folder.remove()
        with pytest.raises(BadView, match="was removed"):
            view.served()
