"""`headrace group`: consumer groups, their lag, and moving their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct
from msgspec.structs import astuple

from headrace.cli.command import Bootstrap, command_group, connect
from headrace.cli.completion import complete_groups, complete_topics
from headrace.cli.output import Format, Shape, note, print_rows, print_table, result, show, show_rows
from headrace.clock import SystemClock
from headrace.durations import parse_duration_ms
from headrace.errors import HeadraceError
from headrace.names import did_you_mean
from headrace.times import parse_time_ms

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster, Partition

app = command_group("List, describe, move and delete consumer groups.")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The group's name.", autocompletion=complete_groups)
]


@result("group list", shape=Shape.LIST)
class ListedGroup(Struct, frozen=True, kw_only=True):
    group: str
    state: Annotated[str, "stable, empty, preparing_rebalancing, ..."]


class GroupPartition(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    committed: Annotated[int | None, "the committed offset; null: none"]
    end: Annotated[int, "the offset of the next record"]
    lag: Annotated[int, "records that the group has not read"]
    member: Annotated[str | None, "the member that reads it; null: none"]


class GroupMember(Struct, frozen=True, kw_only=True):
    member: str
    client: str
    host: str
    partitions: Annotated[int, "how many it reads"]


@result("group describe")
class DescribedGroup(Struct, frozen=True, kw_only=True):
    group: str
    state: str
    partitions: list[GroupPartition]
    members: list[GroupMember]


@result("group delete")
class DeletedGroup(Struct, frozen=True, kw_only=True):
    group: str


@result("group seek", "group reset", shape=Shape.LIST)
class MovedPartition(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    before: Annotated[int | None, "the committed offset before; null: none"]
    after: Annotated[int, "the new offset; with --dry-run, the offset that it would get"]


@app.command("list")
def list_groups(
    internal: Annotated[
        bool,
        typer.Option("--internal", help="Also show the groups in which Headrace keeps its own positions."),
    ] = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """List consumer groups and their states.

    \b
    headrace group list
    headrace group list --internal --format json
    """
    cluster = connect(bootstrap)
    listed = [ListedGroup(group=name, state=state) for name, state in cluster.groups(internal=internal)]
    show_rows(listed, format, empty="no groups yet: `headrace consume TOPIC --group NAME` creates one")


@app.command()
def describe(name: Name, format: Format = "text", bootstrap: Bootstrap = None) -> None:
    """Show a group's members, and the lag of each partition.

    \b
    headrace group describe billing
    headrace group describe billing --format json
    """
    cluster = connect(bootstrap)
    group = cluster.describe_group(name)
    committed = cluster.committed(name)
    if group is None or not (group.members or committed):
        near = did_you_mean(name, [each for each, _ in cluster.groups(internal=True)])
        hint = near or "`headrace group list` lists the groups"
        raise HeadraceError(f"there is no group {name}", hint=hint)
    described = DescribedGroup(
        group=name,
        state=group.state.name.lower(),
        partitions=_described_partitions(cluster, group, committed),
        members=[
            GroupMember(
                member=each.member_id,
                client=each.client_id,
                host=each.host,
                partitions=len(_assigned(each)),
            )
            for each in group.members
        ],
    )
    show(described, format, lambda: _print_group(described))


def _print_group(group: DescribedGroup) -> None:
    title = f"group {group.group}: {group.state}, {len(group.members)} members"
    print_rows(GroupPartition, group.partitions, title=title)
    if group.members:
        typer.echo()
        print_rows(GroupMember, group.members)


@app.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm: the committed offsets are deleted.")] = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Delete a group that has no members, with its committed offsets.

    \b
    headrace group delete billing --yes
    """
    cluster = connect(bootstrap)
    if not yes:
        count = len(cluster.committed(name))
        raise HeadraceError(
            f"group {name} has committed offsets of {count} partitions", hint="add --yes to delete them"
        )
    cluster.delete_groups([name])
    show(DeletedGroup(group=name), format, f"deleted group {name}")


class Target(Struct, frozen=True, kw_only=True):
    """The new position of a group; exactly one of the fields is set."""

    earliest: bool
    latest: bool
    offset: int | None
    time: str | None
    duration: str | None
    shift: int | None

    def __post_init__(self) -> None:
        if sum(each is not None and each is not False for each in astuple(self)) != 1:
            raise typer.BadParameter(
                "give one of --to-earliest, --to-latest, --to-offset, --to-time, --by-duration and --shift-by"
            )

    def offsets(
        self, cluster: Cluster, partitions: list[Partition], committed: dict[Partition, int]
    ) -> dict[Partition, int]:
        """The new offset of each partition, between its start and its end."""
        start, end = cluster.earliest(partitions), cluster.latest(partitions)
        if self.earliest:
            wanted = start
        elif self.latest:
            wanted = end
        elif self.offset is not None:
            wanted = dict.fromkeys(partitions, self.offset)
        elif self.shift is not None:
            wanted = {each: committed.get(each, start[each]) + self.shift for each in partitions}
        else:
            wanted = cluster.at_time(partitions, self._time_ms())
        return {each: min(max(wanted[each], start[each]), end[each]) for each in partitions}

    def _time_ms(self) -> int:
        now_ms = SystemClock().now_ms()
        if self.time is not None:
            return parse_time_ms(self.time, now_ms)
        assert self.duration is not None
        return now_ms - parse_duration_ms(self.duration)


@app.command(
    "reset",
    help="The same as `headrace group seek`, under the name of Kafka's tool.\n\n\b\n"
    "headrace group reset billing --topic orders --to-earliest --dry-run",
)
@app.command("seek")
def seek(
    name: Name,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="T[:P]",
            help="A topic, or one partition of it; repeatable.",
            autocompletion=complete_topics,
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics of which the group has committed offsets.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the oldest record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end: skip all records.")] = False,
    to_offset: Annotated[int | None, typer.Option(min=0, help="To this offset.")] = None,
    to_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="ISO 8601, ms since 1970, or 1h for an hour ago.")
    ] = None,
    by_duration: Annotated[str | None, typer.Option(metavar="AGO", help="1h, 90s, PT1H ago.")] = None,
    shift_by: Annotated[
        int | None,
        typer.Option(metavar="N", help="N records forward from the committed offset, or back with -N."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Move a group to other offsets. It must have no members: a running consumer would continue from its own position.

    An offset outside a partition becomes its start or its end.

    \b
    headrace group seek billing --topic orders --to-earliest --dry-run
    headrace group seek billing --topic orders:0 --to-offset 1200
    headrace group seek billing --all-topics --shift-by -100
    headrace group seek billing --all-topics --to-time 2026-11-15T10:30:00Z
    headrace group seek billing --all-topics --to-time 1h
    """
    target = Target(
        earliest=to_earliest,
        latest=to_latest,
        offset=to_offset,
        time=to_time,
        duration=by_duration,
        shift=shift_by,
    )
    if bool(topic) == all_topics:
        raise typer.BadParameter("give the topics: --topic T (repeatable), or --all-topics")
    cluster = connect(bootstrap)
    # A group may get a position before its first consumer joins.
    group = cluster.describe_group(name)
    members = group.members if group else []
    if members and not dry_run:
        raise HeadraceError(
            f"group {name} has {len(members)} members, which would continue from their own positions",
            hint=f"stop them first; `headrace group describe {name}` shows them",
        )
    committed = cluster.committed(name)
    partitions = sorted(committed) if all_topics else _named_partitions(cluster, topic or [])
    if not partitions:
        raise HeadraceError(f"group {name} has no committed offsets", hint="name the topics with --topic")
    wanted = target.offsets(cluster, partitions, committed)
    if not dry_run:
        cluster.commit(name, wanted)
    moved = [
        MovedPartition(
            topic=each.topic, partition=each.number, before=committed.get(each), after=wanted[each]
        )
        for each in partitions
    ]
    rows = [(each.topic, each.partition, each.before, each.after) for each in moved]
    show(moved, format, lambda: print_table(("topic", "partition", "from", "to"), rows))
    if dry_run:
        note("nothing was changed (--dry-run)")


def _assigned(member: Any) -> list[Any]:
    return list(member.assignment.topic_partitions) if member.assignment else []


def _described_partitions(
    cluster: Cluster, group: Any, committed: dict[Partition, int]
) -> list[GroupPartition]:
    from headrace.kafka.cluster import Partition

    holders = {
        Partition(each.topic, each.partition): member.member_id
        for member in group.members
        for each in _assigned(member)
    }
    topics = cluster.topics()
    # A consumer that subscribes gets every partition of a topic, also those without a committed offset.
    read = {each.topic for each in committed.keys() | holders.keys()} & topics.keys()
    partitions = sorted(each for name in read for each in topics[name])
    start, end = cluster.earliest(partitions), cluster.latest(partitions)
    return [
        GroupPartition(
            topic=each.topic,
            partition=each.number,
            committed=committed.get(each),
            end=end[each],
            # Without a committed offset all records count, unless the client's `auto.offset.reset` skips them.
            lag=end[each] - max(committed.get(each, 0), start[each]),
            member=holders.get(each),
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
            raise HeadraceError(
                f"topic {topic} has no partition {number!r}", hint=f"it has 0 to {len(there) - 1}"
            )
        chosen.update(picked)
    return sorted(chosen)
