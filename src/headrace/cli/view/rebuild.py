"""`headrace view rebuild`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.cli.job.screen import bar_of
from headrace.cli.output import note
from headrace.cli.stopping import Stopping
from headrace.cli.view.results import RebuiltView
from headrace.views.comparison import Comparison

if TYPE_CHECKING:
    from rich.progress import TaskID

    from headrace.kafka.cluster import Cluster
    from headrace.views.catalog import ViewFolder, Views
    from headrace.views.definition import Definition
    from headrace.views.rebuild import RebuildOptions
    from headrace.views.version_jobs import Progress


def rebuild_views(
    views: Views, definitions: Mapping[ViewFolder, Definition], cluster: Cluster, options: RebuildOptions
) -> list[RebuiltView]:
    from headrace.pipeline import session
    from headrace.pipeline.launch import Launch
    from headrace.pipeline.run.launched import launching
    from headrace.views.rebuild import Rebuild
    from headrace.views.version_jobs import VersionJobs

    with (
        Stopping() as stopping,
        launching(Launch(bootstrap=cluster.bootstrap, data_dir=views.data_dir)),
        _progress() as show,
    ):
        # A log file of its own: `headrace view run` may run beside it.
        spark = session(f"rebuild-{next(iter(definitions)).name}")
        jobs = VersionJobs(spark, cluster, show=show, is_stopping=lambda: stopping.is_wanted)
        compared = Rebuild(definitions, jobs=jobs, cluster=cluster, options=options).run()
    return [_rebuilt(folder, compared.get(folder.name)) for folder in definitions]


def _rebuilt(folder: ViewFolder, compared: Comparison | None) -> RebuiltView:
    return RebuiltView(
        name=folder.name,
        version=folder.record().current,
        rows=compared.new_rows if compared else None,
        rows_before=compared.old_rows if compared else None,
        compared=compared.compared if compared else 0,
    )


def words_of(rebuilt: RebuiltView) -> str:
    words = f"view {rebuilt.name}: version {rebuilt.version} is served"
    if rebuilt.rows is None:
        return words
    rows = f"{words}, {rebuilt.rows:,} rows"
    if rebuilt.rows != rebuilt.rows_before:
        rows += f" (before: {rebuilt.rows_before:,})"
    return f"{rows}, {rebuilt.compared:,} rows compared" if rebuilt.compared else rows


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """A bar for each job on a terminal, else a line for each step, on standard error."""
    if not sys.stderr.isatty():
        steps: list[str] = []

        def line(progress: Progress) -> None:
            if progress.step not in steps[-1:]:
                steps.append(progress.step)
                note(progress.step)

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rows]}"),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=Console(stderr=True)) as bars:
        ids: dict[tuple[str, str], TaskID] = {}

        def show(progress: Progress) -> None:
            for name in [job.name for job in progress.jobs] or [""]:
                if (progress.step, name) not in ids:
                    words = f"{progress.step} {name}".strip()
                    ids[progress.step, name] = bars.add_task(words, total=None, rows="")
            for job in progress.jobs:
                done, total = bar_of(job)
                task = ids[progress.step, job.name]
                bars.update(task, completed=done, total=total, rows=f"{job.rows_in:,} records")

        yield show
