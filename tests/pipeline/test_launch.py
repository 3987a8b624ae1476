"""How a script was launched, as the parts of a pipeline see it. What jobs do then is in test_job."""

from __future__ import annotations

import threading
from pathlib import Path

from headrace.pipeline import launch
from headrace.pipeline.launch import Launch
from headrace.pipeline.run.launched import launched_jobs, launching
from headrace.pipeline.settings import pipeline_settings


def test_script_by_itself_has_no_options() -> None:
    assert launch.current() == Launch()
    assert launched_jobs() is None


def test_options_hold_inside_in_every_thread_and_not_behind() -> None:
    seen: list[Launch] = []
    with launching(Launch(once=True)) as launched:
        thread = threading.Thread(target=lambda: seen.append(launch.current()))
        thread.start()
        thread.join()
        assert launched_jobs() is launched
    assert seen == [Launch(once=True)]
    assert launch.current() == Launch()


def test_option_of_the_launch_is_stronger_than_the_script() -> None:
    with launch.using(Launch(bootstrap="kafka:9092", data_dir=Path("elsewhere"))):
        settings = pipeline_settings(bootstrap="mine:9092", data_dir=Path("here"), master="local[1]")
    assert (settings.bootstrap, settings.data_dir, settings.master) == (
        "kafka:9092",
        Path("elsewhere"),
        "local[1]",
    )
