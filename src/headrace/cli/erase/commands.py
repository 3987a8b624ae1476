"""`headrace erase`: remove a person's data, and prove it."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from headrace.cli.command import Bootstrap, DataDir, command_app, connect
from headrace.cli.erase.report import (
    ErasureReport,
    PlaceReport,
    print_list,
    print_report,
    report_of,
    user_topics,
)
from headrace.cli.output import Format, format_time, note, show
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.erasure import Place, Subject
    from headrace.kafka.cluster import Cluster

WAIT_S = 600.0


class KeyFirst(TyperGroup):
    """`headrace erase KEY` is `headrace erase key KEY`, for every KEY that is no command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["key", *args]
        return super().parse_args(ctx, args)


app = command_app(
    cls=KeyFirst,
    no_args_is_help=True,
    help="""Remove a person's data from topics and their copies, and prove it.

    \b
    headrace erase ada --topic users --wait
    headrace erase status
    """,
)

Places = Annotated[
    list[str] | None,
    typer.Option(
        "--place",
        metavar="ADDRESS",
        help="A copy of the rows, such as sqlite:///views.db?table=users&column=id; repeatable. "
        "Also view://NAME, postgresql://, redis://…?prefix=P, search:///FOLDER?column=C, delta:///FOLDER?column=C, "
        "parquet:///FOLDER?column=C, opensearch://HOST:PORT?index=I&column=C.",
    ),
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it is complete; an error if it is not.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait at most.")]
Shred = Annotated[bool, typer.Option("--shred", help="Destroy the person's encryption key in --keys.")]
Keys = Annotated[Path | None, typer.Option("--keys", metavar="FILE", help="The key store, with --shred.")]


@app.command("key")
def key(
    wanted: Annotated[
        str, typer.Argument(metavar="KEY", help='The key of the records: text, or JSON such as {"id": 7}.')
    ],
    topics: Annotated[list[str] | None, typer.Option("--topic", "-t", help="A topic; repeatable.")] = None,
    patterns: Annotated[
        list[str] | None,
        typer.Option("--topics", metavar="PATTERN", help="Topics by pattern, such as 'shop.*'; repeatable."),
    ] = None,
    matches: Annotated[
        list[str] | None,
        typer.Option(
            "--match",
            metavar="FIELD=VALUE",
            help="Also records whose JSON value has this field, such as user_id=7; repeatable.",
        ),
    ] = None,
    is_hex: Annotated[bool, typer.Option("--hex", help="KEY is bytes, in hexadecimal digits.")] = False,
    places: Places = None,
    deletes_records: Annotated[
        bool,
        typer.Option(
            "--delete-records",
            help="In topics that are not compacted, delete ALL records up to the person's last one, "
            "those of others too.",
        ),
    ] = False,
    shred: Shred = False,
    keys: Keys = None,
    wait: Wait = False,
    timeout: Timeout = WAIT_S,
    format: Format = "text",
    bootstrap: Bootstrap = None,
    data_dir: DataDir = None,
) -> None:
    """Erase a person: `headrace erase KEY`; the word `key` is needed only for a KEY that is a command.

    \b
    headrace erase ada --topic users --wait
    headrace erase '{"id": 7}' --topics 'shop.*' --match user_id=7 --wait
    headrace erase 7 --topic users --place 'sqlite:///data/views.db?table=users&column=id'
    headrace erase 7 --topic users --place view://users_by_city
    headrace erase ada --shred --keys keys.db
    headrace erase key status --topic users
    """
    from headrace.erasure import Eraser, Match, Subject

    subject = Subject(key=wanted, is_hex=is_hex, matches=tuple(map(Match.parse, matches or ())))
    opened = _places(places, shred=shred, keys=keys, data_dir=data_dir)
    if not topics and not patterns:
        _finish([_erase_places(subject, opened)], format, wait=wait, single=True)
        return
    cluster = connect(bootstrap)
    chosen = _choose(cluster, topics or (), patterns or ())
    with Eraser(cluster, places=opened, at_step=note) as eraser:
        request = eraser.request(subject, chosen, deletes_records=deletes_records)
        erasure = eraser.work(request.id, wait_s=timeout if wait else 0.0)
    _finish([report_of(erasure, cluster)], format, wait=wait, single=True)


@app.command("continue")
def continue_(
    erasure_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="An erasure; by default all open ones.")
    ] = None,
    places: Places = None,
    shred: Shred = False,
    keys: Keys = None,
    wait: Wait = False,
    timeout: Timeout = WAIT_S,
    format: Format = "text",
    bootstrap: Bootstrap = None,
    data_dir: DataDir = None,
) -> None:
    """Continue erasures: after a crash, or to look again at what waits for compaction or retention.

    Places of the erasure that are not complete must be given again: the cluster keeps no passwords.

    \b
    headrace erase continue --wait
    headrace erase continue 3f2a9c01b7de
    """
    from headrace.erasure import Eraser

    cluster = connect(bootstrap)
    opened = _places(places, shred=shred, keys=keys, data_dir=data_dir)
    with Eraser(cluster, places=opened, at_step=note) as eraser:
        ids = [erasure_id] if erasure_id is not None else [each.id for each in eraser.open_erasures()]
        done = [eraser.work(each, wait_s=timeout if wait else 0.0) for each in ids]
    _finish([report_of(each, cluster) for each in done], format, wait=wait)


@app.command()
def status(
    erasure_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="An erasure; by default all.")
    ] = None,
    wanted: Annotated[
        str | None, typer.Option("--key", help="Only the erasures of this KEY, complete ones too.")
    ] = None,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Show erasures: what was found where, and what is complete. It changes nothing.

    \b
    headrace erase status
    headrace erase status 3f2a9c01b7de --format json
    """
    from headrace.erasure import Subject, chosen, digest_of, read_ledger

    cluster = connect(bootstrap)
    erasures = read_ledger(cluster)
    shown = list(erasures.values()) if erasure_id is None else [chosen(erasures, erasure_id)]
    if wanted is not None:
        shown = [each for each in shown if each.digest == digest_of(each.id, Subject(key=wanted))]
    reports = [report_of(each, cluster) for each in shown]
    if erasure_id is not None:
        _finish(reports, format, wait=False)
    else:
        show(reports, format, lambda: print_list(reports))


def _places(
    addresses: Sequence[str] | None, *, shred: bool, keys: Path | None, data_dir: Path | None
) -> list[Place]:
    from headrace.erasure import place_at

    if shred != (keys is not None):
        raise typer.BadParameter("--shred and --keys FILE belong together", param_hint="--keys")
    opened = [place_at(each, data_dir=data_dir) for each in addresses or ()]
    if keys is not None:
        from headrace.erasure import PersonKeys

        opened.append(PersonKeys(keys))
    return opened


def _choose(cluster: Cluster, topics: Sequence[str], patterns: Sequence[str]) -> list[str]:
    there = user_topics(cluster)
    for pattern in patterns:
        if not any(fnmatchcase(each, pattern) for each in there):
            raise HeadraceError(
                f"no topic matches {pattern!r}", hint="`headrace topic list` lists the topics"
            )
    matching = [each for each in there if any(fnmatchcase(each, pattern) for pattern in patterns)]
    return list(dict.fromkeys([*topics, *sorted(matching)]))


def _erase_places(subject: Subject, places: Sequence[Place]) -> ErasureReport:
    """Without topics there is no request to keep: repeating the command continues it."""
    if not places:
        raise HeadraceError(
            "nothing is named where the key should be erased",
            hint="--topic TOPIC, --topics PATTERN, --place ADDRESS or --shred --keys FILE",
        )
    from headrace.clock import SystemClock

    reports = []
    for each in places:
        found = each.remaining(subject)
        each.erase(subject)
        left = each.remaining(subject)
        complete = None if left else format_time(SystemClock().now_ms())
        reports.append(PlaceReport(place=each.name, found=found, left=left, complete=complete))
    is_complete = all(each.complete for each in reports)
    return ErasureReport(
        id=None,
        state="complete" if is_complete else "open",
        requested=None,
        complete=max(each.complete or "" for each in reports) if is_complete else None,
        digest=None,
        topics=[],
        places=reports,
        not_searched=[],
    )


def _finish(reports: Sequence[ErasureReport], format: Format, *, wait: bool, single: bool = False) -> None:
    def print_all() -> None:
        for each in reports:
            print_report(each)
        if not reports:
            print("no erasure is open")

    show(reports[0] if single else reports, format, print_all)
    if wait and any(each.state != "complete" for each in reports):
        raise typer.Exit(1)
