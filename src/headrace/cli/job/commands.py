"""`headrace job`: run the jobs of a script, show, stop, reset and explain them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from headrace.cli.command import JobName, JobsDataDir, bootstrap_option, command_group
from headrace.cli.job import dead
from headrace.cli.output import Format, format_time, note, print_table, result, show
from headrace.errors import HeadraceError
from headrace.printable import printable, printable_lines

if TYPE_CHECKING:
    from headrace.pipeline.graph.job_graph import RecordedJob
    from headrace.pipeline.launch import Launch
    from headrace.pipeline.report.registry import JobStatus, Registry

DETAIL_COLUMNS = 11
STOP_TIMEOUT_S = 120
"""How long `stop` waits for the current batch; after a longer one the job still ends."""

app = command_group("Jobs on Spark: run, list, show, stop, reset, explain, prepare; their dead letters.")
app.add_typer(dead.app, name="dead")

Script = Annotated[
    Path, typer.Argument(metavar="SCRIPT", help="A Python file that defines jobs and starts them.")
]
Bootstrap = Annotated[
    str | None,
    bootstrap_option(
        "Broker to read from and write to; overrides the script. Default: $HEADRACE_BOOTSTRAP, "
        "else [pipeline] bootstrap in headrace.toml, else 127.0.0.1:9092."
    ),
]
RegistryUrl = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        help="Schema registry; overrides the script. Default: $HEADRACE_REGISTRY, else [pipeline] registry in "
        "headrace.toml, else http://127.0.0.1:8082.",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Spark's master: local[*], spark://HOST:PORT, yarn, k8s://… Default: [pipeline] master.",
    ),
]


@app.command()
def run(
    script: Script,
    once: Annotated[
        bool, typer.Option("--once", help="Process all current records, with a progress bar, and end.")
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild", help="If a job's state is lost: clear its target, and replay from the start."
        ),
    ] = False,
    bootstrap: Bootstrap = None,
    registry: RegistryUrl = None,
    master: Master = None,
    data_dir: JobsDataDir = None,
) -> None:
    """Run a script's jobs until Ctrl-C; with --once, until they have processed all current records.

    Ctrl-C, SIGTERM and `headrace job stop` wait for the current batch. Options override the script.
    Exit code 0: all jobs ended; 1: one failed.

    \b
    headrace job run shop.py
    headrace job run shop.py --once --bootstrap kafka.example:9092
    headrace job run shop.py --master spark://10.0.0.5:7077
    """
    from headrace.cli.job.run import run_jobs

    run_jobs(
        script,
        _launch(
            once=once,
            rebuild=rebuild,
            bootstrap=bootstrap,
            registry=registry,
            master=master,
            data_dir=data_dir,
        ),
    )


@app.command()
def prepare() -> None:
    """Fetch the jars that Spark needs to read topics and prepare its classes, once; later starts are quick and offline.

    Jobs do without, but the first of them has to fetch, and each takes a few seconds more to start.

    \b
    headrace job prepare
    """
    _require_spark()
    from headrace.java import fetch_jars
    from headrace.pipeline.spark.prepare import create_archive
    from headrace.pipeline.spark.session import CONNECTOR

    fetch_jars(CONNECTOR)
    create_archive()


@app.command("list")
def list_jobs(data_dir: JobsDataDir = None, format: Format = "text") -> None:
    """List the jobs of a data folder, running or not.

    \b
    headrace job list
    """
    jobs = _registry(data_dir).list()
    show(jobs, format, lambda: _print_jobs(jobs))


def _print_jobs(jobs: Sequence[JobStatus]) -> None:
    if jobs:
        columns = ("job", "state", "rows/s", "lag", "watermark", "restarts", "reads", "writes")
        print_table(columns, [_list_row(each) for each in jobs])
    else:
        typer.echo("no jobs yet: `headrace job run SCRIPT` runs those of a script")


@app.command()
def status(name: JobName, data_dir: JobsDataDir = None, format: Format = "text") -> None:
    """Show the state of a job.

    \b
    headrace job status clicks-by-url
    headrace job status clicks-by-url --format json
    """
    found = _registry(data_dir).read(name)
    show(found, format, lambda: _print_job(found))


def _print_job(job: JobStatus) -> None:
    typer.echo(f"job {job.name}: {job.state}")
    for label, text in _details(job):
        typer.echo(f"  {label:<{DETAIL_COLUMNS}}{printable_lines(text)}")


@app.command()
def state(
    name: JobName,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VALUE",
            help="Only the rows of this key: NAME=VALUE for each of its columns, or the values in their order.",
        ),
    ] = None,
    operator: Annotated[int | None, typer.Option(help="Only the stateful operator with this number.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Rows to show of each operator.")] = 20,
    data_dir: JobsDataDir = None,
    format: Format = "text",
) -> None:
    """Show the state of a job's stateful operators, as of its last batch. The job may run or not.

    Starts Spark to read the checkpoint, which takes some seconds. In JSON, times are microseconds after
    the epoch.

    \b
    headrace job state clicks-by-url
    headrace job state clicks-by-url --key /shop
    headrace job state visits --key user=ann --format json
    """
    _require_spark()
    from headrace.cli.job.state import show_state
    from headrace.pipeline.settings import pipeline_settings

    show_state(
        pipeline_settings(data_dir=data_dir).data_dir,
        name,
        keys=key or [],
        operator=operator,
        limit=limit,
        as_json=format == "json",
    )


@result("job stop")
class StoppedJob(Struct, frozen=True, kw_only=True):
    name: str
    was_running: Annotated[bool, "false: it had already ended"]
    state: Annotated[str, "as it is now"]


@app.command()
def stop(name: JobName, data_dir: JobsDataDir = None, format: Format = "text") -> None:
    """Stop a running job after its current batch, and wait for it.

    The other jobs of the same script continue.

    \b
    headrace job stop clicks-by-url
    """
    registry = _registry(data_dir)
    state = registry.read(name).state
    if not registry.is_running(name):
        ended = StoppedJob(name=name, was_running=False, state=state.value)
        show(ended, format, f"job {name} is not running: it is {state}")
        return
    registry.request_stop(name)
    if not registry.wait_stopped(name, timeout_s=STOP_TIMEOUT_S):
        raise HeadraceError(
            f"job {name} is still processing a batch after {STOP_TIMEOUT_S} s",
            hint=f"it stops after that batch; `headrace job status {name}` shows the batch and the process",
        )
    stopped = StoppedJob(name=name, was_running=True, state=registry.read(name).state.value)
    show(stopped, format, f"stopped job {name}")


@result("job reset")
class ResetJob(Struct, frozen=True, kw_only=True):
    name: str
    target_cleared: Annotated[bool, "whether the next run clears the target"]


@app.command()
def reset(
    name: JobName,
    clear_target: Annotated[
        bool, typer.Option("--clear-target", help="Also clear the target when the job runs the next time.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm without being asked.")] = False,
    data_dir: JobsDataDir = None,
    format: Format = "text",
) -> None:
    """Delete the checkpoint and the state of a job, after a confirmation.

    The next run starts from the beginning, at the start that the script sets. The target keeps its rows, unless
    --clear-target is given.

    \b
    headrace job reset clicks-by-url
    headrace job reset clicks-by-url --clear-target --yes
    """
    registry = _registry(data_dir)
    found = registry.read(name)
    if not yes:
        _ask(found, registry.checkpoint(name).committed_batch(), clear_target=clear_target)
    registry.reset(name, clear_target=clear_target)
    reset_job = ResetJob(name=name, target_cleared=clear_target)
    show(reset_job, format, f"deleted the checkpoint of job {name}; the next run starts from the beginning")


def _ask(job: JobStatus, committed_batch: int | None, *, clear_target: bool) -> None:
    # The status is written a moment after the commit.
    batch_id = job.batch_id if committed_batch is None else committed_batch
    if batch_id is None:
        lost = f"job {job.name} has no batch yet"
    else:
        lost = f"job {job.name} is at batch {batch_id} with {job.state_rows} rows of state"
    lost += f"; {job.target} {'is cleared' if clear_target else 'keeps its rows'}"
    if not sys.stdin.isatty():
        raise HeadraceError(f"{lost}; the checkpoint was not deleted", hint="add --yes to delete it")
    if not typer.confirm(f"{lost}. Delete the checkpoint?"):
        raise HeadraceError("the checkpoint was not deleted")


@app.command()
def explain(
    script: Script,
    mermaid: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the graph as a Mermaid flowchart to this file.")
    ] = None,
    bootstrap: Bootstrap = None,
    registry: RegistryUrl = None,
    master: Master = None,
    data_dir: JobsDataDir = None,
    format: Format = "text",
) -> None:
    """Show the graph of a script's topics, jobs and tables, and each job's steps, without running a job.

    \b
    headrace job explain shop.py
    headrace job explain shop.py --mermaid shop.mmd
    """
    from headrace.cli.job.run import record_jobs
    from headrace.pipeline.graph.job_graph import draw_text, graph_of
    from headrace.pipeline.graph.mermaid import draw_mermaid

    launch = _launch(explain=True, bootstrap=bootstrap, registry=registry, master=master, data_dir=data_dir)
    jobs = record_jobs(script, launch)
    graph = graph_of(jobs)
    show(jobs, format, lambda: _print_plans(draw_text(graph), jobs))
    if mermaid is not None:
        mermaid.write_text(draw_mermaid(graph))
        note(f"wrote {mermaid}")


def _print_plans(graph: str, jobs: Sequence[RecordedJob]) -> None:
    typer.echo(graph)
    for job in jobs:
        typer.echo(f"\njob {job.name}, output mode {job.output_mode}")
        for number, step in enumerate(job.steps, start=1):
            typer.echo(f"  {number}. {step}")


def _launch(
    *,
    bootstrap: str | None,
    registry: str | None,
    master: str | None,
    data_dir: str | None,
    once: bool = False,
    rebuild: bool = False,
    explain: bool = False,
) -> Launch:
    _require_spark()
    from headrace.pipeline.launch import Launch

    return Launch(
        once=once,
        explain=explain,
        rebuild=rebuild,
        bootstrap=bootstrap,
        registry=registry,
        master=master,
        data_dir=data_dir,
    )


def _require_spark() -> None:
    """An error with a remedy, instead of the traceback of a failed import."""
    if importlib.util.find_spec("pyspark") is None:
        raise HeadraceError("jobs run on Spark, which is not installed", hint="pip install 'headrace[spark]'")


def _registry(data_dir: str | None) -> Registry:
    from headrace.pipeline.report.registry import Registry
    from headrace.pipeline.settings import pipeline_settings

    return Registry(pipeline_settings(data_dir=data_dir).data_dir)


def _list_row(job: JobStatus) -> list[object]:
    rate = None if job.batch_id is None else round(job.rows_per_s)
    sources = ", ".join(job.sources)
    return [job.name, job.state.value, rate, job.lag, job.watermark, job.restarts, sources, job.target]


def _details(job: JobStatus) -> Iterator[tuple[str, str]]:
    """The details of a job, each with a label."""
    yield "reads", ", ".join(job.sources)
    yield "writes", f"{job.target}, {job.guarantee}"
    yield "mode", job.mode
    yield "broker", job.bootstrap
    yield "process", f"{job.pid}, since {format_time(job.started_ms)}, {job.restarts} restarts"
    if job.batch_id is not None:
        yield "batch", f"{job.batch_id} in {job.batch_ms} ms, at {format_time(job.updated_ms)}"
        yield "rows", f"{job.rows_in:,} since the start, {job.rows_per_s:,.0f}/s in the last batch"
        yield "lag", "unknown" if job.lag is None else f"{job.lag:,}"
        kept = f", {job.late_rows_kept:,} of them kept" if job.late_rows_kept else ""
        yield "watermark", f"{job.watermark or 'none'}, {job.late_rows:,} late rows dropped{kept}"
        if job.left_out_rows:
            yield "left out", f"{job.left_out_rows:,} rows in no window: without a time, or a gap"
        if job.skew_ms_p50 is not None:
            skew = (("half", job.skew_ms_p50), ("95 %", job.skew_ms_p95), ("99 %", job.skew_ms_p99))
            shares = ", ".join(f"{share} within {(ms or 0) / 1000:,.3f} s" for share, ms in skew)
            yield "skew", f"{shares} of their event time"
        if job.completeness is not None:
            yield "complete", f"{job.completeness:.2%} of the rows of windows were in time"
        yield "state", f"{job.state_rows:,} rows, {job.state_bytes:,} bytes"
        for hot in job.hot_keys:
            yield (
                "hot key",
                f"{printable(hot.key)} of {hot.operator}: {hot.share:.1%} of the rows, {hot.ms:,.0f} ms",
            )
        yield "bad rows", f"{job.bad_rows:,}, {job.dead_letters:,} dead letters"
    for each in job.notes:
        yield "note", each
    if job.error:
        yield "error", job.error
