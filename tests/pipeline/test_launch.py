"""The options of a launch, as the parts of a pipeline see them. What jobs do then is in test_job."""

from __future__ import annotations

import threading

from headrace.pipeline import launch
from headrace.pipeline.launch import Launch


def test_script_that_is_started_directly_has_no_options() -> None:
    assert launch.current() == Launch()


def test_options_apply_inside_in_every_thread_and_not_after_it() -> None:
    seen: list[Launch] = []
    with launch.using(Launch(once=True)):
        thread = threading.Thread(target=lambda: seen.append(launch.current()))
        thread.start()
        thread.join()
    assert seen == [Launch(once=True)]
    assert launch.current() == Launch()
