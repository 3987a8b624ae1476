"""`headrace group`: consumer groups, how far behind they are, and moving them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.bootstrap import client_settings
from headrace.cli.addresses import BadArgument
from headrace.cli.moments import parse_duration_ms, parse_time_ms
from headrace.cli.output import Format, OutputFormat, note, print_json, print_table
from headrace.cli.settings import Bootstrap
from headrace.clock import SystemClock
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.cli.cluster import Cluster, Partition

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="List, describe, move and delete consumer groups.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The group's name.")]


class GroupRefused(HeadraceError):
    """A group that is not there, or that has members where it must not."""


@app.command("list")
def list_groups(format: Format = OutputFormat.TEXT, bootstrap: Bootstrap = None) -> None:
    """List consumer groups and their states.

    \b
    headrace group list
    """
    cluster = _connect(bootstrap)
    rows = cluster.groups()
    if format is OutputFormat.JSON:
        print_json([{"group": name, "state": state} for name, state in rows])
    elif rows:
        print_table(("group", "state"), rows)
    else:
        typer.echo("no groups yet: `headrace consume TOPIC --group NAME` makes one")


@app.command()
def describe(name: Name, format: Format = OutputFormat.TEXT, bootstrap: Bootstrap = None) -> None:
    """Show a group's members, and how far each partition is behind.

    \b
    headrace group describe billing
    headrace group describe billing --format json
    """
    cluster = _connect(bootstrap)
    group = _describe(cluster, name)
    committed = cluster.committed(name)
    if group is None or not (group.members or committed):
        raise GroupRefused(f"there is no group {name}", hint="`headrace group list` shows what there is")
    rows = _lag_rows(cluster, group, committed)
    if format is OutputFormat.JSON:
        columns = ("topic", "partition", "committed", "end", "lag", "member")
        listed = [dict(zip(columns, row, strict=True)) for row in rows]
        print_json({"group": name, "state": group.state.name.lower(), "partitions": listed})
        return
    print_table(
        ("topic", "partition", "committed", "end", "lag", "member"),
        rows,
        title=f"group {name}: {group.state.name.lower()}, {len(group.members)} members",
    )
    if group.members:
        typer.echo()
        members = [
            (each.member_id, each.client_id, each.host, len(_assigned(each))) for each in group.members
        ]
        print_table(("member", "client", "host", "partitions"), members)


@app.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. The group's positions are gone then.")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Delete a group that has no members, with its committed offsets.

    \b
    headrace group delete billing --yes
    """
    cluster = _connect(bootstrap)
    if not yes:
        count = len(cluster.committed(name))
        raise GroupRefused(
            f"group {name} has positions in {count} partitions", hint="add --yes to delete them"
        )
    cluster.answer(cluster.admin.delete_consumer_groups([name])[name], f"deleting group {name}")
    typer.echo(f"deleted group {name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a group is to be moved; exactly one of the fields is given."""

    earliest: bool
    latest: bool
    offset: int | None
    time: str | None
    duration: str | None

    def __post_init__(self) -> None:
        given = [
            self.earliest,
            self.latest,
            self.offset is not None,
            self.time is not None,
            self.duration is not None,
        ]
        if sum(given) != 1:
            raise typer.BadParameter(
                "say where to, once: --to-earliest, --to-latest, --to-offset, --to-time or --by-duration"
            )

    def offsets(self, cluster: Cluster, partitions: list[Partition]) -> dict[Partition, int]:
        """The new offset of each partition, always one that the partition has."""
        start, end = cluster.earliest(partitions), cluster.latest(partitions)
        if self.earliest:
            return start
        if self.latest:
            return end
        if self.offset is not None:
            return {each: min(max(self.offset, start[each]), end[each]) for each in partitions}
        return cluster.at_time(partitions, self._time_ms())

    def _time_ms(self) -> int:
        if self.time is not None:
            return parse_time_ms(self.time)
        assert self.duration is not None
        return SystemClock().now_ms() - parse_duration_ms(self.duration)


@app.command()
def reset(
    name: Name,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="T[:P]", help="A topic, or one partition of it; repeatable."),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics that the group has committed.")
    ] = False,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="To the oldest record that is still there.")
    ] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="To the end: skip everything so far.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, help="To this offset.")] = None,
    to_time: Annotated[
        str | None, typer.Option("--to-time", metavar="TIME", help="ISO 8601, or ms since 1970.")
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="AGO", help="1h, 90s, PT1H ago.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Move a group that has no members to another position.

    \b
    headrace group reset billing --topic orders --to-earliest --dry-run
    headrace group reset billing --topic orders:0 --to-offset 1200
    headrace group reset billing --all-topics --to-time 2026-11-15T10:30:00Z
    headrace group reset billing --all-topics --by-duration 1h
    """
    target = Target(
        earliest=to_earliest, latest=to_latest, offset=to_offset, time=to_time, duration=by_duration
    )
    if bool(topic) == all_topics:
        raise typer.BadParameter("say which topics: --topic T (repeatable), or --all-topics")
    cluster = _connect(bootstrap)
    # A group that is not there yet may be given a position before its first consumer comes.
    group = _describe(cluster, name)
    members = group.members if group else []
    if members and not dry_run:
        raise GroupRefused(
            f"group {name} has {len(members)} members, and would go on from where they are",
            hint=f"stop them first; `headrace group describe {name}` shows them",
        )
    committed = cluster.committed(name)
    partitions = sorted(committed) if all_topics else _named_partitions(cluster, topic or [])
    if not partitions:
        raise GroupRefused(f"group {name} has committed nothing", hint="name the topics with --topic")
    wanted = target.offsets(cluster, partitions)
    if not dry_run:
        _commit(cluster, name, wanted)
    rows = [(each.topic, each.number, committed.get(each), wanted[each]) for each in partitions]
    print_table(("topic", "partition", "from", "to"), rows)
    if dry_run:
        note("nothing was changed (--dry-run)")


def _connect(bootstrap: str | None) -> Cluster:
    from headrace.cli.cluster import Cluster

    return Cluster(client_settings(bootstrap))


def _describe(cluster: Cluster, name: str) -> Any | None:
    from confluent_kafka import KafkaError, KafkaException

    from headrace.cli.cluster import failure

    future = cluster.admin.describe_consumer_groups([name], request_timeout=cluster.timeout_s)[name]
    try:
        return future.result(timeout=cluster.timeout_s)
    except KafkaException as error:
        # Newer brokers say so; older ones describe a group that is not there as dead and empty.
        if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return None
        raise failure(error.args[0], f"describing group {name}") from error


def _commit(cluster: Cluster, name: str, offsets: dict[Partition, int]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    listed = [TopicPartition(each.topic, each.number, offset) for each, offset in offsets.items()]
    asked = [ConsumerGroupTopicPartitions(name, listed)]
    future = cluster.admin.alter_consumer_group_offsets(asked, request_timeout=cluster.timeout_s)[name]
    for answered in cluster.answer(future, f"moving group {name}").topic_partitions:
        if answered.error is not None:
            raise GroupRefused(f"{answered.topic}-{answered.partition} was not moved: {answered.error.str()}")


def _assigned(member: Any) -> list[Any]:
    return list(member.assignment.topic_partitions) if member.assignment else []


def _lag_rows(cluster: Cluster, group: Any, committed: dict[Partition, int]) -> list[tuple[Any, ...]]:
    from headrace.cli.cluster import Partition, partitions_in

    holders = {
        Partition(each.topic, each.partition): member.member_id
        for member in group.members
        for each in _assigned(member)
    }
    topics = cluster.topics()
    # A reader that subscribes gets every partition of a topic, also those without a commit.
    read = {each.topic for each in committed.keys() | holders.keys()} & topics.keys()
    partitions = sorted(each for name in read for each in partitions_in(topics[name], name))
    start, end = cluster.earliest(partitions), cluster.latest(partitions)
    return [
        # Without a commit all that is there is still to be read, unless the client's `auto.offset.reset` skips it.
        (
            *(each.topic, each.number, committed.get(each), end[each]),
            end[each] - max(committed.get(each, 0), start[each]),
            holders.get(each),
        )
        for each in partitions
    ]


def _named_partitions(cluster: Cluster, names: list[str]) -> list[Partition]:
    chosen: set[Partition] = set()
    for name in names:
        topic, colon, number = name.partition(":")
        there = cluster.partitions(topic)
        picked = [each for each in there if not colon or str(each.number) == number]
        if not picked:
            raise BadArgument(
                f"topic {topic} has no partition {number!r}", hint=f"it has 0 to {len(there) - 1}"
            )
        chosen.update(picked)
    return sorted(chosen)
