"""`headrace queue`: queue groups, their lag, and their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from headrace.cli.arguments import parse_configs, unknown_config
from headrace.cli.command import Bootstrap, DeleteConfigs, command_group, connect
from headrace.cli.output import Format, Shape, print_rows, print_table, result, show, show_rows
from headrace.cli.queue.dead import app as dead_app
from headrace.clock import SystemClock
from headrace.durations import parse_duration_ms
from headrace.errors import HeadraceError
from headrace.kafka.settings import client_settings
from headrace.names import did_you_mean
from headrace.printable import printable_lines

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster
    from headrace.kafka.share_groups import GroupState

app = command_group(
    "Groups of workers that share messages (share groups): list, describe, alter, request, and their dead letters."
)
app.add_typer(dead_app, name="dead")

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]


@result("queue list", shape=Shape.LIST)
class ListedQueue(Struct, frozen=True, kw_only=True):
    group: str
    state: str
    members: Annotated[int, "how many"]
    not_done: Annotated[
        int | None, "messages that are waiting or in flight; null if the broker does not report it"
    ]
    topics: list[str]


class QueuePartition(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    done_up_to: Annotated[
        int | None, "the first offset that is not done; null: the group has no position yet"
    ]
    not_done: Annotated[int | None, "null if the broker does not report it"]


class QueueMember(Struct, frozen=True, kw_only=True):
    member: str
    client: str
    host: str
    partitions: Annotated[int, "how many it reads"]
    in_flight: Annotated[int | None, "messages that it has locked; null on Apache Kafka"]


@result("queue describe")
class DescribedQueue(Struct, frozen=True, kw_only=True):
    group: str
    state: str
    ordered: Annotated[bool, "whether messages of a key are delivered in order, to one worker at a time"]
    waiting: Annotated[
        int | None, "messages that no worker has locked; null if the broker does not report it"
    ]
    in_flight: Annotated[int | None, "messages that workers have locked; null on Apache Kafka"]
    redelivered: Annotated[int | None, "messages in flight that were delivered before; null on Apache Kafka"]
    dead: Annotated[int, "dead letters that were not redriven"]
    oldest_age_s: Annotated[float | None, "of the oldest message that is not done; null: none"]
    dead_letter_topic: str
    partitions: list[QueuePartition]
    members: list[QueueMember]


class QueueConfig(Struct, frozen=True, kw_only=True):
    value: str
    is_default: bool


@result("queue alter")
class AlteredQueue(Struct, frozen=True, kw_only=True):
    group: str
    configs: Annotated[dict[str, QueueConfig], "those in force"]


@result("queue request")
class RepliedRequest(Struct, frozen=True, kw_only=True):
    topic: str
    reply: Annotated[str, "the value of the reply; what is not UTF-8 is replaced"]


@result("queue delete")
class DeletedQueue(Struct, frozen=True, kw_only=True):
    group: str


@app.command("list")
def list_queues(format: Format = "text", bootstrap: Bootstrap = None) -> None:
    """List queue groups, with their members and the messages that are not done.

    \b
    headrace queue list
    """
    from headrace.kafka.share_groups import describe_share_group, list_share_groups

    cluster = connect(bootstrap)
    brokers = cluster.brokers()
    listed = []
    for name, _ in list_share_groups(brokers, cluster.timeout_s):
        group = describe_share_group(brokers[0], name, cluster.timeout_s)
        listed.append(
            ListedQueue(
                group=name,
                state=group.state,
                members=len(group.members),
                not_done=group.not_done,
                topics=sorted({each.topic for each in group.partitions}),
            )
        )
    empty = "no queues yet: `headrace work TOPIC --group NAME -- COMMAND` creates one"
    show_rows(listed, format, empty=empty)


@app.command()
def describe(name: Name, format: Format = "text", bootstrap: Bootstrap = None) -> None:
    """Show the messages and members of a group.

    Only Headrace's broker reports in flight and redelivered; Apache Kafka does not.

    \b
    headrace queue describe senders
    """
    from headrace.kafka.errors import NoSuchGroup
    from headrace.kafka.share_groups import describe_share_group, list_share_groups
    from headrace.queue.dead_letters import DeadLetters
    from headrace.queue.group_settings import read_settings

    cluster = connect(bootstrap)
    brokers = cluster.brokers()
    try:
        group = describe_share_group(brokers[0], name, cluster.timeout_s)
    except NoSuchGroup as error:
        there = [each for each, _ in list_share_groups(brokers, cluster.timeout_s)]
        error.hint = did_you_mean(name, there) or error.hint
        raise
    letters = DeadLetters(name, bootstrap=cluster.bootstrap, timeout_s=cluster.timeout_s)
    described = DescribedQueue(
        group=name,
        state=group.state,
        ordered=read_settings(cluster, name).is_ordered,
        waiting=None if group.not_done is None else group.not_done - (group.in_flight or 0),
        in_flight=group.in_flight,
        redelivered=group.redelivered,
        dead=letters.count(),
        oldest_age_s=_oldest_age_s(cluster, group),
        dead_letter_topic=letters.topic,
        partitions=[
            QueuePartition(
                topic=each.topic,
                partition=each.partition,
                done_up_to=each.start_offset if each.start_offset >= 0 else None,
                not_done=each.not_done,
            )
            for each in group.partitions
        ],
        members=[
            QueueMember(
                member=each.member_id,
                client=each.client_id,
                host=each.host,
                partitions=each.partitions,
                in_flight=each.in_flight,
            )
            for each in group.members
        ],
    )
    show(described, format, lambda: _print_queue(described))


def _print_queue(queue: DescribedQueue) -> None:
    print_table(
        ("waiting", "in flight", "redelivered", "dead", "oldest (s)"),
        [[queue.waiting, queue.in_flight, queue.redelivered, queue.dead, queue.oldest_age_s]],
        title=f"group {queue.group}: {queue.state}, {len(queue.members)} members"
        + (", ordered by key" if queue.ordered else ""),
    )
    if queue.partitions:
        typer.echo()
        print_rows(QueuePartition, queue.partitions)
    if queue.members:
        typer.echo()
        print_rows(QueueMember, queue.members)


@app.command()
def request(
    topic: Annotated[str, typer.Argument(help="The topic that the workers read.")],
    value: Annotated[str, typer.Argument(help="The request.")],
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of the message.")] = None,
    timeout: Annotated[str, typer.Option(metavar="TIME", help="How long to wait for the reply.")] = "30s",
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Send a request to the workers of a queue and print the reply.

    Exit code 1 if no worker replies in time, or one rejects the request.

    \b
    headrace queue request prices '{"item": 17}' --timeout 5s
    """
    from headrace.queue import Queue

    settings = client_settings(bootstrap)
    timeout_s = parse_duration_ms(timeout) / 1000
    with Queue(topic, bootstrap=settings.bootstrap, timeout_s=settings.timeout_s) as queue:
        reply = queue.request(value, key=key, timeout=timeout_s)
    text = reply.value.decode(errors="replace")
    show(RepliedRequest(topic=topic, reply=text), format, printable_lines(text.removesuffix("\n")))


@app.command()
def alter(
    name: Name,
    config: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of the group; repeatable.")
    ] = None,
    delete_config: DeleteConfigs = None,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Change a group's settings, before or after it has its first member; without any, show them.

    \b
    headrace queue alter senders
    headrace queue alter senders --config share.delivery.count.limit=3
    headrace queue alter senders --config share.record.lock.duration.ms=1m
    headrace queue alter senders --config headrace.share.retry.backoff.ms=1s
    headrace queue alter packers --config headrace.share.order=key
    """
    from headrace.queue.group_settings import read_settings

    cluster = connect(bootstrap)
    wanted: dict[str, str | None] = {**parse_configs(config or []), **dict.fromkeys(delete_config or [])}
    settings = read_settings(cluster, name)
    for each in wanted:
        if each not in settings.values:
            raise unknown_config(each, settings.values)
    if wanted:
        cluster.alter_configs("group", name, wanted)
        settings = read_settings(cluster, name)
    # Settings of other kinds of groups do not apply.
    foreign = ("consumer.", "streams.")
    altered = AlteredQueue(
        group=name,
        configs={
            each: QueueConfig(value=text, is_default=each not in settings.given)
            for each, text in sorted(settings.values.items())
            if not each.startswith(foreign)
        },
    )
    show(altered, format, f"changed group {name}" if wanted else lambda: _print_configs(altered))


def _print_configs(queue: AlteredQueue) -> None:
    rows = [
        (name, each.value, "default" if each.is_default else "set") for name, each in queue.configs.items()
    ]
    print_table(("setting", "value", ""), rows)


@app.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm: the group's position is deleted.")] = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Delete a group that has no members; its dead letters stay.

    \b
    headrace queue delete senders --yes
    """
    cluster = connect(bootstrap)
    if not yes:
        raise HeadraceError(
            f"group {name} would start from the beginning again", hint="add --yes to delete it"
        )
    cluster.delete_groups([name])
    show(DeletedQueue(group=name), format, f"deleted group {name}")


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
