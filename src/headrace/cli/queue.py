"""`headrace queue`: queue groups, how much they have left to do, and their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.bootstrap import client_settings
from headrace.cli.addresses import parse_pairs
from headrace.cli.output import Format, OutputFormat, note, print_json, print_table
from headrace.cli.queue_dead import app as dead_app
from headrace.cli.settings import Bootstrap
from headrace.clock import SystemClock

if TYPE_CHECKING:
    from headrace.cli.cluster import Cluster
    from headrace.queue.share_groups import GroupState, PartitionState

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Groups of workers that share messages (share groups): list, describe, set, and their dead letters.",
)
app.add_typer(dead_app, name="dead")

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]


@app.command("list")
def list_queues(format: Format = OutputFormat.TEXT, bootstrap: Bootstrap = None) -> None:
    """List queue groups, with their members and what is left to do.

    \b
    headrace queue list
    """
    from headrace.queue.share_groups import describe_share_group, list_share_groups

    cluster = _connect(bootstrap)
    brokers = cluster.brokers()
    rows = []
    for name, _ in list_share_groups(brokers, cluster.timeout_s):
        group = describe_share_group(brokers[0], name, cluster.timeout_s)
        topics = sorted({each.topic for each in group.partitions})
        rows.append((name, group.state, len(group.members), _not_done(group), ", ".join(topics)))
    columns = ("group", "state", "members", "not_done", "topics")
    if format is OutputFormat.JSON:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif rows:
        print_table(("group", "state", "members", "not done", "topics"), rows)
    else:
        typer.echo("no queues yet: `headrace work TOPIC --group NAME -- COMMAND` makes one")


@app.command()
def describe(name: Name, format: Format = OutputFormat.TEXT, bootstrap: Bootstrap = None) -> None:
    """Show what a group has to do and who does it.

    In flight and redelivered are known for Headrace's broker only; Apache Kafka tells nobody.

    \b
    headrace queue describe senders
    """
    from headrace.queue.dead_letters import DeadLetters
    from headrace.queue.share_groups import describe_share_group

    cluster = _connect(bootstrap)
    group = describe_share_group(cluster.brokers()[0], name, cluster.timeout_s)
    letters = DeadLetters(name, bootstrap=cluster.settings.bootstrap, timeout_s=cluster.timeout_s)
    oldest_s = _oldest_age_s(cluster, group)
    in_flight = group.in_flight
    not_done = _not_done(group)
    summary: dict[str, Any] = {
        "group": name,
        "state": group.state,
        "waiting": None if not_done is None else not_done - (in_flight or 0),
        "in_flight": in_flight,
        "redelivered": group.redelivered,
        "dead": letters.count(),
        "oldest_age_s": oldest_s,
        "dead_letter_topic": letters.topic,
    }
    if format is OutputFormat.JSON:
        summary["partitions"] = [_partition_json(each) for each in group.partitions]
        summary["members"] = [
            {
                "member": each.member_id,
                "client": each.client_id,
                "host": each.host,
                "partitions": each.partitions,
                "in_flight": each.in_flight,
            }
            for each in group.members
        ]
        print_json(summary)
        return
    _print_description(summary, group)


def _print_description(summary: dict[str, Any], group: GroupState) -> None:
    names = ("waiting", "in_flight", "redelivered", "dead", "oldest_age_s")
    print_table(
        ("waiting", "in flight", "redelivered", "dead", "oldest (s)"),
        [[summary[each] for each in names]],
        title=f"group {group.group}: {group.state}, {len(group.members)} members",
    )
    if group.partitions:
        typer.echo()
        rows = [(each.topic, each.partition, _offset(each), each.not_done) for each in group.partitions]
        print_table(("topic", "partition", "done up to", "not done"), rows)
    if group.members:
        typer.echo()
        members = [
            (each.member_id, each.client_id, each.host, each.partitions, each.in_flight)
            for each in group.members
        ]
        print_table(("member", "client", "host", "partitions", "in flight"), members)


@app.command()
def alter(
    name: Name,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="NAME=VALUE", help="A setting of the group; repeatable."),
    ] = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="NAME", help="Back to the default; repeatable."),
    ] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Change a group's settings, before or after it has its first member; without any, show them.

    \b
    headrace queue alter senders
    headrace queue alter senders --config share.delivery.count.limit=3
    headrace queue alter senders --config headrace.share.retry.backoff.ms=1000
    """
    from headrace.queue.group_settings import change_settings, read_settings

    cluster = _connect(bootstrap)
    wanted: dict[str, str | None] = {**parse_pairs(config or [], option="--config")}
    wanted |= dict.fromkeys(delete_config or [])
    if wanted:
        change_settings(cluster.admin, name, wanted, cluster.timeout_s)
        typer.echo(f"changed group {name}")
        return
    settings = read_settings(cluster.admin, name, cluster.timeout_s)
    rows = [
        (each, settings.values[each], "set" if each in settings.given else "default")
        for each in settings.values
    ]
    # Those of other kinds of groups are of no use here.
    foreign = ("consumer.", "streams.")
    print_table(("setting", "value", ""), sorted(row for row in rows if not row[0].startswith(foreign)))


@app.command()
def delete(
    name: Name,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it. What the group has done is forgotten then.")
    ] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Delete a group that has no members; its dead letters stay.

    \b
    headrace queue delete senders --yes
    """
    cluster = _connect(bootstrap)
    if not yes:
        raise typer.BadParameter(f"add --yes: group {name} would begin anew")
    cluster.answer(cluster.admin.delete_consumer_groups([name])[name], f"deleting group {name}")
    note(f"deleted group {name}")


def _connect(bootstrap: str | None) -> Cluster:
    from headrace.cli.cluster import Cluster

    return Cluster(client_settings(bootstrap))


def _not_done(group: GroupState) -> int | None:
    """None if the broker does not say; where the group has not begun there is nothing to say."""
    counts = [each.not_done for each in group.partitions if each.start_offset >= 0]
    return None if None in counts else sum(each for each in counts if each is not None)


def _offset(partition: PartitionState) -> int | None:
    return partition.start_offset if partition.start_offset >= 0 else None


def _partition_json(partition: PartitionState) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "done_up_to": _offset(partition),
        "not_done": partition.not_done,
    }


def _oldest_age_s(cluster: Cluster, group: GroupState) -> float | None:
    """Of the first record that is not done, by its timestamp; it is read like any other record."""
    from confluent_kafka import Consumer, TopicPartition

    now_ms = SystemClock().now_ms()
    ages_ms = []
    consumer = Consumer(cluster.client_config(group_id="headrace-cli", enable_auto_commit=False))
    try:
        for each in group.partitions:
            if each.not_done and each.start_offset >= 0:
                consumer.assign([TopicPartition(each.topic, each.partition, each.start_offset)])
                message = consumer.poll(cluster.timeout_s)
                if message is not None and message.error() is None:
                    ages_ms.append(max(now_ms - message.timestamp()[1], 0))
    finally:
        consumer.close()
    return round(max(ages_ms) / 1000, 1) if ages_ms else None
