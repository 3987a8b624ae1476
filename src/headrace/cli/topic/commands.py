"""`headrace topic`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.bootstrap import client_settings
from headrace.cli.completion import complete_topics
from headrace.cli.output import Format, OutputFormat, Shape, print_table, result, show
from headrace.cli.settings import Bootstrap
from headrace.cli.topic.configs import parse_configs, unknown_config
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from confluent_kafka.admin import ConfigEntry

    from headrace.cli.cluster import Cluster

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Create, list, describe, alter and delete topics.",
)

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
@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    topic: str
    created: Annotated[bool, "false if it existed, with --if-not-exists"]


@result("topic list", shape=Shape.LIST)
@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTopic:
    topic: str
    partitions: Annotated[int, "how many"]
    offsets: Annotated[int, "end less start, over all partitions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedPartition:
    partition: int
    start_offset: Annotated[int, "of the oldest record"]
    end_offset: Annotated[int, "of the next record"]
    offsets: Annotated[int, "end less start"]
    size_bytes: Annotated[int | None, "on disk; null if the broker does not report it"]
    read_only: Annotated[str | None, "why the partition takes no records; null if it does"]


@result("topic describe")
@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTopic:
    topic: str
    partitions: list[DescribedPartition]
    configs: Annotated[dict[str, str], "those that differ from their defaults; with --all-configs all"]


@result("topic alter")
@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredTopic:
    topic: str
    configs: Annotated[dict[str, str | None], "what was set; null: back to the default"]
    partitions: Annotated[int | None, "the new number; null: unchanged"]


@result("topic delete", shape=Shape.LIST)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    topic: str
    offsets: Annotated[int, "end less start, over all partitions: at least as many as it held records"]


class NotConfirmed(HeadraceError):
    """Something that cannot be undone, without --yes."""


@app.command()
def create(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="One topic or several.")],
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="Default: the broker's.")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", min=1, help="Default: the broker's.")
    ] = None,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="An existing topic is a success.")
    ] = False,
    format: Format = OutputFormat.TEXT,
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
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import NewTopic

    from headrace.cli.cluster import CommandFailed

    configs = parse_configs(config or ())
    cluster = _connect(bootstrap)
    # Minus one is the protocol's "as the broker is set up".
    wanted = [NewTopic(name, partitions or -1, replication_factor or -1, config=configs) for name in names]
    created: list[CreatedTopic] = []
    failed: CommandFailed | None = None
    for name, future in cluster.admin.create_topics(wanted, request_timeout=cluster.timeout_s).items():
        try:
            cluster.answer(future, f"creating topic {name}")
            created.append(CreatedTopic(topic=name, created=True))
        except CommandFailed as error:
            if if_not_exists and error.code == KafkaError.TOPIC_ALREADY_EXISTS:
                created.append(CreatedTopic(topic=name, created=False))
            else:
                failed = failed or error
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
    format: Format = OutputFormat.TEXT,
    bootstrap: Bootstrap = None,
) -> None:
    """List topics with their partitions and offsets.

    Offsets are end less start, over all partitions. Every record has one, and so have markers of transactions and
    records that compaction has removed.

    \b
    headrace topic list
    headrace topic list --internal --format json
    """
    from headrace.cli.cluster import partitions_in

    cluster = _connect(bootstrap)
    topics = cluster.topics()
    hidden = set() if internal else _internal_topics(cluster, list(topics))
    shown = {name: partitions_in(topics[name], name) for name in sorted(topics.keys() - hidden)}
    every = [each for partitions in shown.values() for each in partitions]
    # One question for all partitions rather than one per topic: a broker may have thousands.
    start, end = cluster.earliest(every), cluster.latest(every)
    listed = [
        ListedTopic(
            topic=name,
            partitions=len(partitions),
            offsets=sum(end[each] - start[each] for each in partitions),
        )
        for name, partitions in shown.items()
    ]
    show(listed, format, lambda: _print_topics(listed))


def _print_topics(topics: Sequence[ListedTopic]) -> None:
    if topics:
        rows = [(each.topic, each.partitions, each.offsets) for each in topics]
        print_table(("topic", "partitions", "offsets"), rows)
    else:
        typer.echo("no topics yet: `headrace topic create NAME` makes one")


@app.command()
def describe(
    name: Name,
    all_configs: Annotated[bool, typer.Option("--all-configs", help="Show defaults too.")] = False,
    format: Format = OutputFormat.TEXT,
    bootstrap: Bootstrap = None,
) -> None:
    """Show a topic's partitions, offsets, sizes, and the settings of its own.

    \b
    headrace topic describe clicks
    headrace topic describe clicks --all-configs --format json
    """
    from confluent_kafka.admin import ConfigSource

    cluster = _connect(bootstrap)
    partitions = cluster.partitions(name)
    start, end = cluster.earliest(partitions), cluster.latest(partitions)
    configs = {
        entry.name: str(entry.value)
        for entry in _configs(cluster, name).values()
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
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="NAME", help="Back to the default; repeatable."),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="The new number; only more.")
    ] = None,
    format: Format = OutputFormat.TEXT,
    bootstrap: Bootstrap = None,
) -> None:
    """Change a topic's settings or add partitions.

    \b
    headrace topic alter clicks --config retention.ms=1d
    headrace topic alter clicks --delete-config retention.ms
    headrace topic alter clicks --partitions 8
    """
    sets, deletes = parse_configs(config or ()), delete_config or []
    if not (sets or deletes or partitions):
        raise typer.BadParameter("nothing to change: give --config, --delete-config or --partitions")
    cluster = _connect(bootstrap)
    cluster.partitions(name)
    told = []
    if sets or deletes:
        _alter_configs(cluster, name, sets, deletes)
        told.append(f"changed the settings of {name}")
    if partitions:
        from confluent_kafka.admin import NewPartitions

        future = cluster.admin.create_partitions([NewPartitions(name, partitions)])[name]
        cluster.answer(future, f"adding partitions to {name}")
        told.append(f"topic {name} has {partitions} partitions now")
    altered = AlteredTopic(topic=name, configs={**sets, **dict.fromkeys(deletes)}, partitions=partitions)
    show(altered, format, "\n".join(told))


@app.command()
def delete(
    names: Names,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. There is no way back.")] = False,
    format: Format = OutputFormat.TEXT,
    bootstrap: Bootstrap = None,
) -> None:
    """Delete topics with all their records.

    \b
    headrace topic delete clicks --yes
    """
    cluster = _connect(bootstrap)
    held = [DeletedTopic(topic=name, offsets=_offsets(cluster, name)) for name in names]
    if not yes:
        lost = ", ".join(f"topic {each.topic} holds up to {each.offsets} records" for each in held)
        raise NotConfirmed(f"{lost} that cannot be brought back", hint="add --yes to delete")
    for name, future in cluster.admin.delete_topics(names).items():
        cluster.answer(future, f"deleting topic {name}")
    show(held, format, "\n".join(f"deleted topic {name}" for name in names))


def _offsets(cluster: Cluster, name: str) -> int:
    """Those of markers of transactions and of gaps of compaction too."""
    partitions = cluster.partitions(name)
    return sum(cluster.latest(partitions).values()) - sum(cluster.earliest(partitions).values())


def _connect(bootstrap: str | None) -> Cluster:
    from headrace.cli.cluster import Cluster

    return Cluster(client_settings(bootstrap))


def _on_disk(cluster: Cluster, name: str, partitions: int) -> tuple[dict[int, int], dict[int, str]]:
    """Sizes, and why a partition takes no records, as far as the brokers tell."""
    from headrace.cli.topic.on_disk import read_only_reasons, sizes_bytes

    brokers = cluster.brokers()
    try:
        return (
            sizes_bytes(brokers, name, partitions, cluster.timeout_s),
            read_only_reasons(brokers[0], name, cluster.timeout_s),
        )
    except HeadraceError:
        return {}, {}


def _internal_topics(cluster: Cluster, names: list[str]) -> set[str]:
    from confluent_kafka import TopicCollection

    if not names:
        return set()
    futures = cluster.admin.describe_topics(TopicCollection(names), request_timeout=cluster.timeout_s)
    return {
        name
        for name, future in futures.items()
        if cluster.answer(future, f"describing topic {name}").is_internal
    }


def _configs(cluster: Cluster, name: str) -> dict[str, ConfigEntry]:
    from confluent_kafka.admin import ConfigResource, ResourceType

    resource = ConfigResource(ResourceType.TOPIC, name)
    (future,) = cluster.admin.describe_configs([resource]).values()
    return cluster.answer(future, f"asking for the settings of {name}")


def _alter_configs(cluster: Cluster, name: str, sets: dict[str, str], deletes: list[str]) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    changes = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in sets.items()
    ] + [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in deletes]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
    (future,) = cluster.admin.incremental_alter_configs([resource]).values()
    try:
        cluster.answer(future, f"changing the settings of {name}")
    except HeadraceError as error:
        _explain_config(cluster, [*sets, *deletes], error)
        raise


def _explain_config(cluster: Cluster, names: Iterable[str], error: HeadraceError) -> None:
    """Raise the error of a config that does not exist instead, if that is why the broker refused."""
    # Each topic has all configs; without any topic the names are not known.
    known = next((_configs(cluster, topic) for topic in cluster.topics()), {})
    unknown = [name for name in names if known and name not in known]
    if unknown:
        raise unknown_config(unknown[0], known) from error
