"""`headrace topic`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.bootstrap import client_settings
from headrace.cli.addresses import parse_pairs
from headrace.cli.output import Format, OutputFormat, print_json, print_table
from headrace.cli.settings import Bootstrap
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

Name = Annotated[str, typer.Argument(metavar="NAME", help="The topic's name.")]
Configs = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME=VALUE",
        help="A topic setting such as retention.ms=3600000; repeatable.",
    ),
]


class NotConfirmed(HeadraceError):
    """Something that cannot be undone, without --yes."""


@app.command()
def create(
    name: Name,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="Default: the broker's.")
    ] = None,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="An existing topic is a success.")
    ] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Create a topic.

    \b
    headrace topic create clicks --partitions 4
    headrace topic create users --config cleanup.policy=compact
    headrace topic create audit --config retention.ms=-1 --if-not-exists
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    cluster = _connect(bootstrap)
    # Minus one is the protocol's "as the broker is set up".
    wanted = NewTopic(name, partitions or -1, 1, config=parse_pairs(config or (), option="--config"))
    future = cluster.admin.create_topics([wanted])[name]
    try:
        cluster.answer(future, f"creating topic {name}")
    except HeadraceError as error:
        cause = error.__cause__
        exists = isinstance(cause, KafkaException) and cause.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
        if not (exists and if_not_exists):
            raise
        typer.echo(f"topic {name} exists already")
        return
    typer.echo(f"created topic {name}")


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
    rows = [
        (name, len(partitions), sum(end[each] - start[each] for each in partitions))
        for name, partitions in shown.items()
    ]
    if format is OutputFormat.JSON:
        print_json(
            [{"topic": name, "partitions": count, "offsets": offsets} for name, count, offsets in rows]
        )
    elif rows:
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
    """Show a topic's partitions, offsets, sizes, and the settings that differ from their defaults.

    \b
    headrace topic describe clicks
    headrace topic describe clicks --all-configs --format json
    """
    cluster = _connect(bootstrap)
    partitions = cluster.partitions(name)
    start, end = cluster.earliest(partitions), cluster.latest(partitions)
    configs = {
        entry.name: entry.value
        for entry in _configs(cluster, name).values()
        if all_configs or not entry.is_default
    }
    sizes, read_only = _on_disk(cluster, name, len(partitions))
    rows = [
        (each.number, start[each], end[each], end[each] - start[each], sizes.get(each.number))
        for each in partitions
    ]
    if format is OutputFormat.JSON:
        columns = ("partition", "start_offset", "end_offset", "offsets", "size_bytes")
        listed = [
            {**dict(zip(columns, row, strict=True)), "read_only": read_only.get(row[0])} for row in rows
        ]
        print_json({"topic": name, "partitions": listed, "configs": configs})
        return
    print_table(("partition", "start", "end", "offsets", "bytes"), rows, title=f"topic {name}")
    for partition, reason in sorted(read_only.items()):
        typer.echo(f"partition {partition} is read-only: {reason}")
    typer.echo()
    if configs:
        print_table(("setting", "value"), sorted(configs.items()))
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
    bootstrap: Bootstrap = None,
) -> None:
    """Change a topic's settings or add partitions.

    \b
    headrace topic alter clicks --config retention.ms=86400000
    headrace topic alter clicks --delete-config retention.ms
    headrace topic alter clicks --partitions 8
    """
    sets, deletes = parse_pairs(config or (), option="--config"), delete_config or []
    if not (sets or deletes or partitions):
        raise typer.BadParameter("nothing to change: give --config, --delete-config or --partitions")
    cluster = _connect(bootstrap)
    cluster.partitions(name)
    if sets or deletes:
        _alter_configs(cluster, name, sets, deletes)
        typer.echo(f"changed the settings of {name}")
    if partitions:
        from confluent_kafka.admin import NewPartitions

        future = cluster.admin.create_partitions([NewPartitions(name, partitions)])[name]
        cluster.answer(future, f"adding partitions to {name}")
        typer.echo(f"topic {name} has {partitions} partitions now")


@app.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. There is no way back.")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Delete a topic with all its records.

    \b
    headrace topic delete clicks --yes
    """
    cluster = _connect(bootstrap)
    partitions = cluster.partitions(name)
    if not yes:
        start, end = cluster.earliest(partitions), cluster.latest(partitions)
        # Markers of transactions and gaps of compaction have offsets too.
        records_max = sum(end.values()) - sum(start.values())
        raise NotConfirmed(
            f"topic {name} holds up to {records_max} records that cannot be brought back",
            hint="add --yes to delete",
        )
    cluster.answer(cluster.admin.delete_topics([name])[name], f"deleting topic {name}")
    typer.echo(f"deleted topic {name}")


def _connect(bootstrap: str | None) -> Cluster:
    from headrace.cli.cluster import Cluster

    return Cluster(client_settings(bootstrap))


def _on_disk(cluster: Cluster, name: str, partitions: int) -> tuple[dict[int, int], dict[int, str]]:
    """Sizes, and why a partition takes no records, as far as the brokers tell."""
    from headrace.cli.on_disk import read_only_reasons, sizes_bytes

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
    cluster.answer(future, f"changing the settings of {name}")
