"""`headrace view`: create views, run them, list them, remove them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer
from msgspec.structs import replace

from headrace.cli.command import Bootstrap, DataDir, command_group, connect
from headrace.cli.output import Format, format_time, note, print_table, show, show_rows
from headrace.cli.view import reading
from headrace.cli.view.results import CreatedView, ListedView, RemovedView, ViewLag
from headrace.views.definition import Definition, StoreKind

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster
    from headrace.views.catalog import ViewFolder, Views

app = command_group("Views that follow topics: create, run, rebuild, query, follow.")
app.add_typer(reading.app)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The view's name.")]
Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Views; by default all.")]
Sql = Annotated[
    str | None,
    typer.Option(
        "--sql",
        metavar="SELECT",
        help="Over the topics as tables: the last part of a topic's name is its table. Default: all columns.",
    ),
]
To = Annotated[str | None, typer.Option("--to", metavar="STORE", help=f"{', '.join(get_args(StoreKind))}.")]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="ADDRESS",
        help="Of the store: a file, a folder or a URL. Default: in the data folder.",
    ),
]


@app.command()
def create(
    name: Name,
    topics: Annotated[
        list[str] | None, typer.Option("--from", metavar="TOPIC", help="Topic to read; repeatable.")
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", "-k", metavar="COLUMN", help="Column of the key; repeatable.")
    ] = None,
    sql: Sql = None,
    script: Annotated[
        str | None,
        typer.Option(
            "--script",
            metavar="FILE.py:FUNCTION",
            help="Instead of topics and SQL: returns the rows on Spark.",
        ),
    ] = None,
    to: To = None,
    at: At = None,
    schema: Annotated[
        list[str] | None,
        typer.Option(
            "--schema",
            metavar="TOPIC=COLUMNS",
            help="Columns of a topic as in CREATE TABLE, if its records do not show them; repeatable.",
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="NAME=VALUE", help="Option of the store; repeatable."),
    ] = None,
    bootstrap: Bootstrap = None,
    format: Format = "text",
    data_dir: DataDir = None,
) -> None:
    """Create a view of topics. `headrace view run` builds it and keeps it current.

    \b
    headrace view create users --from shop.public.users --key id
    headrace view create users_by_city --from shop.public.users --key city \\
        --sql 'SELECT city, count(*) AS users FROM users GROUP BY city' --to postgresql --at postgresql://db/shop
    headrace view create sessions --script views.py:sessions --key user
    """
    from headrace.views.rows import script_place
    from headrace.views.stores import open_store

    path, function = script_place(script) if script else (None, "")
    definition = Definition(
        name=name,
        topics=tuple(topics or ()),
        key=tuple(key or ()),
        sql=sql or "",
        script=f"{path}:{function}" if path else "",
        store=store_kind(to or "sqlite"),
        at=at or "",
        schemas=_pairs(schema, "--schema"),
        options=_pairs(option, "--option"),
    )
    views = views_of(data_dir)
    definition = _checked(definition, connect(bootstrap))
    store = open_store(definition, views.data_dir)
    try:
        store.check()
    finally:
        store.close()
    views.create(definition)
    created = CreatedView(name=name, topics=list(definition.topics), store=definition.store)
    show(created, format, f"created view {name}; `headrace view run {name}` builds it and keeps it current")


@app.command()
def run(
    names: Names = None,
    once: Annotated[
        bool, typer.Option("--once", help="Read everything that is in the topics now, and end.")
    ] = False,
    bootstrap: Bootstrap = None,
    data_dir: DataDir = None,
) -> None:
    """Run views until Ctrl-C, or once. A new view is built first: its name appears when it is complete.

    \b
    headrace view run
    headrace view run users_by_city --once
    """
    from headrace.cli.view.run import run_until_stopped

    run_until_stopped(views_of(data_dir), names or [], connect(bootstrap), once=once)


@app.command("list")
def list_views(format: Format = "text", data_dir: DataDir = None) -> None:
    """List views, the version that each serves, and what they do.

    \b
    headrace view list
    headrace view list --format json
    """
    views = views_of(data_dir)
    listed = []
    for name in views.names():
        folder = views.folder(name)
        record, status = folder.record(), folder.status()
        listed.append(
            ListedView(
                name=name,
                store=record.definition.store,
                version=_served(folder),
                building=record.building,
                state=status.state.value,
                since=format_time(status.since_ms) if status.since_ms else None,
                lag=status.lag,
                error=status.error,
            )
        )
    show_rows(
        listed,
        format,
        empty="no views yet: `headrace view create NAME --from TOPIC --key COLUMN` creates one",
    )


@app.command()
def lag(
    names: Names = None, bootstrap: Bootstrap = None, format: Format = "text", data_dir: DataDir = None
) -> None:
    """Show how many records of each partition views have not read, and how long the first of them waits.

    \b
    headrace view lag
    headrace view lag users_by_city --format json
    """
    from headrace.clock import SystemClock
    from headrace.views.lag import lag_of, position_of

    views = views_of(data_dir)
    cluster = connect(bootstrap)
    now_ms = SystemClock().now_ms()
    found = []
    for name in names or views.names():
        folder = views.folder(name)
        version = _served(folder) or folder.record().current
        token = position_of(folder, version).token()
        for each in lag_of(folder, version, cluster):
            since_ms = each.waiting_since_ms
            found.append(
                ViewLag(
                    view=name,
                    topic=each.topic,
                    partition=each.partition,
                    position=each.position,
                    end=each.end,
                    lag=each.records,
                    lag_s=None if since_ms is None else max(0.0, round((now_ms - since_ms) / 1000, 3)),
                    token=token,
                )
            )
    columns = ("view", "topic", "partition", "position", "end", "lag", "lag, s")
    rows = [
        (each.view, each.topic, each.partition, each.position, each.end, each.lag, each.lag_s)
        for each in found
    ]
    show(found, format, (lambda: print_table(columns, rows)) if rows else "no views yet")


@app.command()
def rebuild(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Views, which switch together.")],
    sql: Sql = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", "-k", metavar="COLUMN", help="Column of the key; repeatable.")
    ] = None,
    to: To = None,
    at: At = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip bad events, as in live operation, instead of failing.")
    ] = False,
    accept_differences: Annotated[
        bool,
        typer.Option("--accept-differences", help="Switch even if the new rows are not like the old ones."),
    ] = False,
    bootstrap: Bootstrap = None,
    format: Format = "text",
    data_dir: DataDir = None,
) -> None:
    """Build views again from the first offset, beside the versions that are served, and switch.

    Readers have the old version until the switch, and no moment without one. --sql, --key, --to and --at change the
    definition of one view. Views that are named together switch together. `headrace view run` may run meanwhile.

    \b
    headrace view rebuild users_by_city
    headrace view rebuild users_by_city --sql 'SELECT city, count(*) AS people FROM users GROUP BY city'
    headrace view rebuild orders order_lines
    """
    from headrace.cli.view.rebuild import rebuild_views, words_of
    from headrace.views.rebuild import RebuildOptions

    views = views_of(data_dir)
    folders = [views.folder(name) for name in dict.fromkeys(names)]
    changes = {
        "sql": sql,
        "key": tuple(key) if key else None,
        "store": store_kind(to) if to else None,
        "at": "" if to and at is None else at,
    }
    changed = {field: value for field, value in changes.items() if value is not None}
    if changed and len(folders) > 1:
        raise typer.BadParameter(
            "they change one view; name only one", param_hint="--sql, --key, --to and --at"
        )
    cluster = connect(bootstrap)
    definitions = {
        folder: _checked(replace(folder.record().definition, **changed), cluster) for folder in folders
    }
    options = RebuildOptions(skip_bad=skip_bad, accept_differences=accept_differences)
    rebuilt = rebuild_views(views, definitions, cluster, options)
    show(rebuilt, format, "\n".join(map(words_of, rebuilt)))


@app.command()
def remove(
    name: Name,
    bootstrap: Bootstrap = None,
    format: Format = "text",
    data_dir: DataDir = None,
) -> None:
    """Remove a view: its name and its rows in the store, and its jobs. Topics and dead letters stay.

    \b
    headrace view remove users_by_city
    """
    from headrace.views.removal import remove_view

    folder = views_of(data_dir).folder(name)
    remove_view(folder, connect(bootstrap))
    done = f"removed view {name}; its topics stay"
    show(RemovedView(name=name, done=done), format, done)


def views_of(data_dir: Path | None) -> Views:
    from headrace.pipeline.settings import pipeline_settings
    from headrace.views.catalog import Views

    return Views(pipeline_settings(data_dir=data_dir).local_data_dir)


def store_kind(text: str) -> StoreKind:
    kinds = get_args(StoreKind)
    if text not in kinds:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(kinds)}", param_hint="--to")
    return cast("StoreKind", text)


def _checked(definition: Definition, cluster: Cluster) -> Definition:
    """With the columns that its topics have now."""
    from headrace.views.rows import with_columns

    found, notes = with_columns(definition, cluster)
    for each in notes:
        note(each)
    return found


def _served(folder: ViewFolder) -> int | None:
    """None also if the store is unavailable."""
    from headrace.errors import HeadraceError

    try:
        return folder.served()[1]
    except HeadraceError:
        return None


def _pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not separator:
            raise typer.BadParameter(f"{text!r} has no =", param_hint=option)
        pairs[name] = value
    return pairs
