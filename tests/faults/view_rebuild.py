"""`headrace` in a process that `test_views_killed.py` lets die at a point of a rebuild.

HEADRACE_TEST_KILL_VIEW=store-switched python -m tests.faults.view_rebuild view rebuild users
"""

from __future__ import annotations

import os

from headrace.cli.main import main
from headrace.testing.faults import kill_process
from headrace.views import points
from headrace.views.points import Point

KILL_VIEW_VARIABLE = "HEADRACE_TEST_KILL_VIEW"


def kill(reached: Point) -> None:
    if reached == os.environ.get(KILL_VIEW_VARIABLE):
        kill_process()


if __name__ == "__main__":
    points.hooks.append(kill)
    main()
