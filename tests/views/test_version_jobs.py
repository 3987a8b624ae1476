"""Running the jobs of versions for a rebuild. What they build is in `test_rebuild`."""

from __future__ import annotations

import pytest

from headrace.pipeline.report.registry import Registry
from headrace.views.version_jobs import Progress, RebuildStopped, VersionJobs
from tests.views.view_house import ViewHouse, user


def test_stop_ends_the_jobs_and_the_next_run_continues_them(house: ViewHouse) -> None:
    folder = house.create()
    house.change(user(1))
    seen: list[Progress] = []
    stopping = VersionJobs(house.spark, house.cluster, show=seen.append, is_stopping=lambda: True)
    with pytest.raises(RebuildStopped, match="the old version is served as before"):
        stopping.run({folder: 1}, "building", skip_bad=True)
    assert not Registry(house.views.data_dir).is_running("view.users.1")
    jobs = VersionJobs(house.spark, house.cluster, show=seen.append, is_stopping=lambda: False)
    jobs.run({folder: 1}, "building", skip_bad=True)
    assert folder.store().count(1) == 1
    assert {each.step for each in seen} == {"building"}
    assert seen[-1].jobs[0].name == "view.users.1"
