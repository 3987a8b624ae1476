"""`headrace broker`: start a broker, or check one.

A start imports only the broker: no client library, no rich.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from msgspec import Struct

from headrace.cli.arguments import parse_pairs
from headrace.cli.broker.log_format import LogFormat, LogLevel, configure_logging
from headrace.cli.command import Bootstrap, command_app, connect
from headrace.cli.output import OutputFormat, result, show
from headrace.errors import HeadraceError
from headrace.kafka.settings import parse_address

app = command_app()


@app.command()
def broker(
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the log. Default: ./data")] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Default: 127.0.0.1:9092. Port 0 takes a free one."),
    ] = None,
    durability: Annotated[
        Literal["fsync", "os"] | None,
        typer.Option(help="fsync (default): acknowledged records are on disk. os: in the page cache."),
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve Prometheus metrics there.")
    ] = None,
    insecure: Annotated[
        bool | None,
        typer.Option(
            "--insecure",
            help="Allow --listen on an address that other machines can reach, without authentication.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Settings file ([broker] table). Default: ./headrace.toml if it exists."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other broker setting; repeatable."),
    ] = None,
    log_format: Annotated[LogFormat, typer.Option(help="Log lines on stderr.")] = "text",
    log_level: LogLevel = "info",
    check: Annotated[
        bool, typer.Option("--check", help="Start no broker: check the health of the broker at --listen.")
    ] = False,
    format: Annotated[
        OutputFormat, typer.Option(help="Of --check: text for people, json for programs.")
    ] = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Start a broker; it prints its address when it is ready, and Ctrl-C stops it.

    Settings: the defaults, under headrace.toml, under HEADRACE_BROKER_* variables, under these options.

    \b
    headrace broker --data-dir ./data --listen 127.0.0.1:9092
    headrace broker --durability os --metrics-port 9404 --log-format json
    headrace broker --set auto_create_topics=false --set default_partitions=4
    headrace broker --check --bootstrap 127.0.0.1:9092
    """
    if check:
        _check(listen or bootstrap, format)
        return

    from headrace.broker.settings import BrokerSettings
    from headrace.settings import load

    flags: dict[str, Any] = dict(parse_pairs(set_ or (), option="--set"))
    if listen is not None:
        flags["host"], flags["port"] = parse_address(listen)
    given = {
        "data_dir": data_dir,
        "durability": durability,
        "metrics_port": metrics_port,
        "insecure": insecure,
    }
    flags.update({name: value for name, value in given.items() if value is not None})
    settings = load(BrokerSettings, section="broker", flags=flags, file=config)
    configure_logging(log_format, log_level)

    from headrace.broker.server import run

    raise typer.Exit(run(settings))


@result("broker")
class CheckedBroker(Struct, frozen=True, kw_only=True):
    bootstrap: str
    is_healthy: bool
    problems: Annotated[list[str], "why it is not healthy"]
    brokers: Annotated[list[int], "their numbers"]
    cluster: Annotated[str | None, "the cluster's id"]
    topics: Annotated[int, "how many, internal ones included"]
    partitions: Annotated[int, "how many"]


def _check(address: str | None, format: OutputFormat) -> None:
    """One line if the broker is healthy; otherwise the error has the reasons."""
    from headrace.kafka.errors import RequestFailed
    from headrace.kafka.on_disk import health_problems

    cluster = connect(address)
    where = cluster.bootstrap
    try:
        metadata = cluster.metadata()
    except RequestFailed as error:
        raise HeadraceError(
            f"the broker at {where} does not answer a metadata request: {error.message}", hint=error.hint
        ) from error
    partitions = [each for topic in metadata.topics.values() for each in topic.partitions.values()]
    problems = [
        problem
        for each in metadata.brokers.values()
        for problem in health_problems((str(each.host), each.port), each.id, cluster.timeout_s)
    ]
    leaderless = sum(each.leader < 0 for each in partitions)
    if leaderless:
        problems.append(f"{leaderless} partitions have no leader")
    checked = CheckedBroker(
        bootstrap=where,
        is_healthy=not problems,
        problems=problems,
        brokers=sorted(metadata.brokers),
        cluster=metadata.cluster_id,
        topics=len(metadata.topics),
        partitions=len(partitions),
    )
    if checked.is_healthy or format == "json":
        brokers = ", ".join(str(each) for each in checked.brokers)
        show(
            checked,
            format,
            f"healthy: {where} is broker {brokers} of cluster {checked.cluster}, "
            f"{checked.topics} topics, {checked.partitions} partitions",
        )
    if problems:
        raise HeadraceError(
            f"the broker at {where} is unhealthy: {'; '.join(problems)}",
            hint="free space if the disk is full; `headrace topic describe NAME` shows partitions that are read-only",
        )
