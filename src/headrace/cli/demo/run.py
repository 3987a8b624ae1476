"""`headrace run`: a broker with a small live stream, a shop whose changes are captured, a job and views on them, for a
demonstration. `make run` calls it."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.command import command_app, connect
from headrace.clock import SystemClock

if TYPE_CHECKING:
    from headrace.cli.top.panels import Panel

SAMPLE_EVERY_S = 1.0

app = command_app()


@app.command()
def run(
    data_dir: Annotated[Path, typer.Option(help="Folder of the log.")] = Path("data"),
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where the broker listens; port 0 is a free one.")
    ] = "127.0.0.1:0",
    rate: Annotated[float, typer.Option(min=0, help="Clicks a second.")] = 200,
    seconds: Annotated[float | None, typer.Option(min=0, help="End after this time.")] = None,
    job: Annotated[
        bool,
        typer.Option(
            "--job/--no-job",
            help="Count the clicks by url, and keep the views of the shop, on Spark (takes some seconds to start).",
        ),
    ] = True,
) -> None:
    """Start a broker with a small live stream and a job on it; watch topics, rates and lag until Ctrl-C.

    Rows that change in a small shop, a SQLite file, arrive as events, and three views follow them: a table, a cache
    (if redis-server is installed) and a full-text index.

    The job and the views need Java and the extra `spark`; if they are missing, the rest runs without them.

    \b
    headrace run
    headrace run --rate 2000 --listen 127.0.0.1:9092
    headrace run --seconds 10 | cat
    """
    from headrace.cli.demo.job_panel import JobPanel, process_age_ms
    from headrace.cli.demo.processes import BrokerProcess, CaptureProcess, JobProcess, RedisProcess
    from headrace.cli.demo.shop import Shop, capture_shop, create_shop
    from headrace.cli.demo.stream import Clicks, Follower, create_topic
    from headrace.cli.demo.views_panel import ViewsPanel
    from headrace.cli.top.panels import GroupsPanel, TopicsPanel

    # SIGTERM is handled as Ctrl-C: everything below is closed in order.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    clock = SystemClock()
    started_ms = clock.now_ms() - process_age_ms()
    deadline_s = None if seconds is None else time.monotonic() + seconds
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(data_dir=data_dir, listen=listen))
        panels: list[Panel] = []
        shop = data_dir / "shop.db"
        create_shop(shop)
        capture_shop(shop, data_dir)
        capture = stack.enter_context(CaptureProcess(bootstrap=broker.bootstrap, data_dir=data_dir))
        if job:
            stack.enter_context(RedisProcess(data_dir=data_dir))
            # In parallel with everything else: Spark takes seconds to start.
            process = stack.enter_context(JobProcess(bootstrap=broker.bootstrap, data_dir=data_dir))
            panels.append(JobPanel(process, data_dir, clock, started_ms=started_ms))
            panels.append(ViewsPanel(data_dir))
        cluster = connect(broker.bootstrap)
        create_topic(cluster)
        clicks = stack.enter_context(Clicks(cluster, rate=rate))
        follower = stack.enter_context(Follower(cluster))
        customers = stack.enter_context(Shop(shop))
        topics = TopicsPanel(cluster, clock)
        panels[:0] = [topics, GroupsPanel(cluster, topics, clock)]
        checks = [broker.check, clicks.check, follower.check, capture.check, customers.check]
        _watch(broker.bootstrap, panels, checks, deadline_s)
    typer.echo("stopped")


def _watch(
    bootstrap: str, panels: Sequence[Panel], checks: Sequence[Callable[[], None]], deadline_s: float | None
) -> None:
    from headrace.cli.top.panels import panels_view

    hint = f"try: headrace consume shop.orders --follow --bootstrap {bootstrap}"
    with panels_view(panels, f"broker at {bootstrap}", hint) as show:
        while deadline_s is None or time.monotonic() < deadline_s:
            for check in checks:
                check()
            for panel in panels:
                panel.sample()
            show("")
            time.sleep(SAMPLE_EVERY_S)
