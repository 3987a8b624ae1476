"""`headrace topic`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from headrace.cli.arguments import parse_configs, unknown_config
from headrace.cli.command import Bootstrap, DeleteConfigs, command_group, connect
from headrace.cli.completion import complete_topics
from headrace.cli.output import Format, Shape, print_table, result, show, show_rows
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster
    from headrace.kafka.errors import RequestFailed

app = command_group("Create, list, describe, alter and delete topics.")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The topic's name.", autocompletion=complete_topics)
]
Names = Annotated[
    list[str], typer.Argument(metavar="NAME...", help="One topic or several.", autocompletion=complete_topics)
]
Configs = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME=VALUE",
        help="A topic config such as retention.ms=1h or segment.bytes=64MB; repeatable.",
    ),
]


@result("topic create", shape=Shape.LIST)
class CreatedTopic(Struct, frozen=True, kw_only=True):
    topic: str
    created: Annotated[bool, "false if it existed, with --if-not-exists"]


@result("topic list", shape=Shape.LIST)
class ListedTopic(Struct, frozen=True, kw_only=True):
    topic: str
    partitions: Annotated[int, "how many"]
    offsets: Annotated[int, "end less start, over all partitions"]


class DescribedPartition(Struct, frozen=True, kw_only=True):
    partition: int
    start_offset: Annotated[int, "of the oldest record"]
    end_offset: Annotated[int, "of the next record"]
    offsets: Annotated[int, "end less start"]
    size_bytes: Annotated[int | None, "on disk; null if the broker does not report it"]
    read_only: Annotated[str | None, "why the partition accepts no records; null if it does"]


@result("topic describe")
class DescribedTopic(Struct, frozen=True, kw_only=True):
    topic: str
    partitions: list[DescribedPartition]
    configs: Annotated[dict[str, str], "those that differ from their defaults; with --all-configs all"]


@result("topic alter")
class AlteredTopic(Struct, frozen=True, kw_only=True):
    topic: str
    configs: Annotated[dict[str, str | None], "what was set; null: back to the default"]
    partitions: Annotated[int | None, "the new number; null: unchanged"]


@result("topic delete", shape=Shape.LIST)
class DeletedTopic(Struct, frozen=True, kw_only=True):
    topic: str
    offsets: Annotated[int, "end less start, over all partitions: at least the number of its records"]


@app.command()
def create(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="One topic or several.")],
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="Default: the broker's.")
    ] = None,
    replication_factor: Annotated[int | None, typer.Option(min=1, help="Default: the broker's.")] = None,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if a topic exists.")
    ] = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Create topics, all with the same settings.

    Durations and sizes may have a unit: retention.ms=1h, retention.bytes=10GB (10 billion bytes), segment.bytes=64MiB.

    \b
    headrace topic create clicks --partitions 4
    headrace topic create users orders --config cleanup.policy=compact
    headrace topic create audit --config retention.ms=30d --if-not-exists
    headrace topic create payments --replication-factor 3 --config min.insync.replicas=2
    """
    from headrace.kafka.cluster import BROKERS_DEFAULT
    from headrace.kafka.errors import RequestFailed

    configs = parse_configs(config or ())
    cluster = connect(bootstrap)
    created: list[CreatedTopic] = []
    failed: RequestFailed | None = None
    for name in names:
        try:
            is_new = cluster.create_topic(
                name,
                partitions=partitions or BROKERS_DEFAULT,
                replication_factor=replication_factor or BROKERS_DEFAULT,
                config=configs,
                exist_ok=if_not_exists,
            )
        except RequestFailed as error:
            failed = failed or error
        else:
            created.append(CreatedTopic(topic=name, created=is_new))
    show(created, format, lambda: _print_created(created))
    if failed is not None:
        _explain_config(cluster, configs, failed)
        raise failed


def _print_created(topics: Iterable[CreatedTopic]) -> None:
    for each in topics:
        typer.echo(f"created topic {each.topic}" if each.created else f"topic {each.topic} exists already")


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Show the broker's own topics too.")] = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """List topics with their partitions and offsets.

    Offsets are end less start, over all partitions. Every record has one, and so have transaction markers and
    records that compaction has removed.

    \b
    headrace topic list
    headrace topic list --internal --format json
    """
    cluster = connect(bootstrap)
    topics = cluster.topics()
    hidden = set() if internal else cluster.internal_topics(list(topics))
    shown = {name: topics[name] for name in sorted(topics.keys() - hidden)}
    every = [each for partitions in shown.values() for each in partitions]
    # One request for all partitions rather than one per topic: a broker may have thousands.
    start, end = cluster.earliest(every), cluster.latest(every)
    listed = [
        ListedTopic(
            topic=name,
            partitions=len(partitions),
            offsets=sum(end[each] - start[each] for each in partitions),
        )
        for name, partitions in shown.items()
    ]
    show_rows(listed, format, empty="no topics yet: `headrace topic create NAME` creates one")


@app.command()
def describe(
    name: Name,
    all_configs: Annotated[bool, typer.Option("--all-configs", help="Show defaults too.")] = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Show a topic's partitions, offsets and sizes, and the settings that differ from their defaults.

    \b
    headrace topic describe clicks
    headrace topic describe clicks --all-configs --format json
    """
    from confluent_kafka.admin import ConfigSource

    cluster = connect(bootstrap)
    partitions = cluster.partitions(name)
    start, end = cluster.earliest(partitions), cluster.latest(partitions)
    configs = {
        entry.name: str(entry.value)
        for entry in cluster.configs("topic", name).values()
        if all_configs or ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
    }
    sizes, read_only = _on_disk(cluster, name, len(partitions))
    described = DescribedTopic(
        topic=name,
        partitions=[
            DescribedPartition(
                partition=each.number,
                start_offset=start[each],
                end_offset=end[each],
                offsets=end[each] - start[each],
                size_bytes=sizes.get(each.number),
                read_only=read_only.get(each.number),
            )
            for each in partitions
        ],
        configs=configs,
    )
    show(described, format, lambda: _print_topic(described))


def _print_topic(topic: DescribedTopic) -> None:
    rows = [
        (each.partition, each.start_offset, each.end_offset, each.offsets, each.size_bytes)
        for each in topic.partitions
    ]
    print_table(("partition", "start", "end", "offsets", "bytes"), rows, title=f"topic {topic.topic}")
    for each in topic.partitions:
        if each.read_only is not None:
            typer.echo(f"partition {each.partition} is read-only: {each.read_only}")
    typer.echo()
    if topic.configs:
        print_table(("setting", "value"), sorted(topic.configs.items()))
    else:
        typer.echo("all settings are the defaults")


@app.command()
def alter(
    name: Name,
    config: Configs = None,
    delete_config: DeleteConfigs = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="The new number, which can only grow.")
    ] = None,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Change a topic's settings or add partitions.

    \b
    headrace topic alter clicks --config retention.ms=1d
    headrace topic alter clicks --delete-config retention.ms
    headrace topic alter clicks --partitions 8
    """
    from headrace.kafka.errors import RequestFailed

    wanted: dict[str, str | None] = {**parse_configs(config or ()), **dict.fromkeys(delete_config or [])}
    if not (wanted or partitions):
        raise typer.BadParameter("nothing to change: give --config, --delete-config or --partitions")
    cluster = connect(bootstrap)
    cluster.partitions(name)
    changes = []
    if wanted:
        try:
            cluster.alter_configs("topic", name, wanted)
        except RequestFailed as error:
            _explain_config(cluster, wanted, error)
            raise
        changes.append(f"changed the settings of {name}")
    if partitions:
        cluster.add_partitions(name, partitions)
        changes.append(f"topic {name} has {partitions} partitions now")
    altered = AlteredTopic(topic=name, configs=wanted, partitions=partitions)
    show(altered, format, "\n".join(changes))


@app.command()
def delete(
    names: Names,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm: it cannot be undone.")] = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Delete topics with all their records.

    \b
    headrace topic delete clicks --yes
    """
    cluster = connect(bootstrap)
    held = [DeletedTopic(topic=name, offsets=_offsets(cluster, name)) for name in names]
    if not yes:
        lost = ", ".join(f"topic {each.topic} holds up to {each.offsets} records" for each in held)
        raise HeadraceError(f"{lost}, which cannot be restored", hint="add --yes to delete")
    cluster.delete_topics(names)
    show(held, format, "\n".join(f"deleted topic {name}" for name in names))


def _offsets(cluster: Cluster, name: str) -> int:
    """Transaction markers and records that compaction removed count too."""
    partitions = cluster.partitions(name)
    return sum(cluster.latest(partitions).values()) - sum(cluster.earliest(partitions).values())


def _on_disk(cluster: Cluster, name: str, partitions: int) -> tuple[dict[int, int], dict[int, str]]:
    """Sizes, and why a partition accepts no records, as far as the brokers report it."""
    from headrace.kafka.on_disk import read_only_reasons, sizes_bytes

    brokers = cluster.brokers()
    try:
        return (
            sizes_bytes(brokers, name, partitions, cluster.timeout_s),
            read_only_reasons(brokers[0], name, cluster.timeout_s),
        )
    except HeadraceError:
        return {}, {}


def _explain_config(cluster: Cluster, names: Iterable[str], error: RequestFailed) -> None:
    """If the request failed because a config does not exist, raise an error that names it."""
    # Each topic has all configs; without any topic the names are unknown.
    known = next((cluster.configs("topic", topic) for topic in cluster.topics()), {})
    unknown = [name for name in names if known and name not in known]
    if unknown:
        raise unknown_config(unknown[0], known) from error
