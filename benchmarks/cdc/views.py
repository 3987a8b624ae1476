"""Views that run beside a load, in a process of their own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.views.catalog import ViewFolder, Views
from headrace.views.definition import Definition

VIEW = "ticks"
VIEWS_FILE = "views.db"
BUILD_TIMEOUT_S = 1_200
STOP_TIMEOUT_S = 120


class ViewFailed(HeadraceError):
    """A view ended, or was not built in time."""


def ticks_view(topic: str) -> Definition:
    return Definition(name=VIEW, topics=(topic,), key=("id",), schemas={topic: "id BIGINT, at BIGINT"})


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "headrace", "view", *words]


@contextlib.contextmanager
def running_views(definition: Definition, folder: Path, bootstrap: str) -> Iterator[ViewFolder]:
    """`headrace view run`, from the moment when the view can be read."""
    views = Views(folder)
    view = views.create(definition)
    with (folder / "view.log").open("a") as log:
        process = subprocess.Popen(
            command("run", "--bootstrap", bootstrap, "--data-dir", str(folder)), stdout=log, stderr=log
        )
    try:
        deadline_s = time.monotonic() + BUILD_TIMEOUT_S
        while view.served()[1] is None:
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise ViewFailed(f"the view was not built: {(folder / 'view.log').read_text()[-2000:]}")
            time.sleep(0.1)
        yield view
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
