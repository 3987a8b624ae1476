"""`headrace cdc`: capture the changes of databases."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from headrace.cli.cdc_progress import SnapshotScreen
from headrace.cli.command import Bootstrap, DataDir, command_group, connect
from headrace.cli.output import Format, Shape, format_time, note, print_table, result, show, show_rows
from headrace.cli.stopping import Stopping
from headrace.redaction import redacted

if TYPE_CHECKING:
    from headrace.cdc.capture import Captures, Keep
    from headrace.cdc.outbox.definition import Outbox
    from headrace.cdc.runner import CaptureRun

app = command_group("Capture the changes of databases: every committed change becomes a record.")

WAIT_S = 0.2

Name = Annotated[str, typer.Argument(metavar="NAME", help="The capture's name.")]
Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Captures; by default all.")]


@result("cdc add")
class AddedCapture(Struct, frozen=True, kw_only=True):
    name: str
    tables: Annotated[list[str], "the tables that match now"]


@result("cdc list", shape=Shape.LIST)
class ListedCapture(Struct, frozen=True, kw_only=True):
    name: str
    source: Annotated[str, "the address, without user and password"]
    state: Annotated[str, "new, snapshot, streaming, waiting to retry, paused, stopped, failed or killed"]
    events: Annotated[int, "captured since its process started"]
    last_change: Annotated[str | None, "when the last captured change was committed in the database"]


class TableProgress(Struct, frozen=True, kw_only=True):
    table: str
    rows_read: int
    rows_total: Annotated[int | None, "an estimate; null if unknown"]
    is_done: bool


@result("cdc status")
class CaptureReport(Struct, frozen=True, kw_only=True):
    name: str
    source: Annotated[str, "the address, without user and password"]
    tables: Annotated[list[str], "patterns; empty for all tables"]
    keep: Annotated[str, "latest, all or both; with commas, PATTERN=KEEP for tables that differ"]
    state: Annotated[str, "new, snapshot, streaming, waiting to retry, paused, stopped, failed or killed"]
    events: Annotated[int, "captured since its process started"]
    transactions: Annotated[int, "commits of the database since its process started"]
    last_change: Annotated[str | None, "when the last captured change was committed in the database"]
    lag_bytes: Annotated[int | None, "of the database's log that are not confirmed; null if unknown"]
    dead_letters: Annotated[int, "rows of the outbox that were rejected since its process started"]
    error: Annotated[str, "of the last failure; empty if there was none"]
    snapshots: list[TableProgress]


@result("cdc pause", "cdc resume", "cdc remove", "cdc snapshot")
class ChangedCapture(Struct, frozen=True, kw_only=True):
    name: str
    done: Annotated[str, "what was done"]


@result("cdc outbox")
class OutboxStatement(Struct, frozen=True, kw_only=True):
    statement: Annotated[str, "creates the table"]


@app.command()
def add(
    name: Name,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="ADDRESS",
            help="sqlite:///FILE, or postgresql://, mysql:// or mariadb://USER:PASSWORD@HOST:PORT/DATABASE.",
        ),
    ],
    tables: Annotated[
        list[str] | None,
        typer.Option("--tables", "-t", help="Pattern of table names; repeatable. Default: all tables."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TABLES=]KEEP",
            help="latest (default): compacted topics, a copy of each table. all: every change. both: TOPIC and "
            "TOPIC.changes. Repeatable, with a pattern of tables: 'audit_*=all'.",
        ),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="Of new topics. Default: the broker's.")
    ] = None,
    schemas: Annotated[
        bool, typer.Option("--schemas", help="Repeat the schema in each record, as Kafka Connect does.")
    ] = False,
    outbox: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Publish the rows of this table as events. Other tables are captured if --tables names them.",
        ),
    ] = None,
    outbox_topic: Annotated[
        str | None,
        typer.Option(help="Topic of an event, with {aggregatetype}, {aggregateid} or {type}."),
    ] = None,
    outbox_delete: Annotated[
        bool, typer.Option(help="Delete the rows of the outbox once they are published.")
    ] = True,
    format: Format = "text",
    data_dir: DataDir = None,
) -> None:
    """Add a capture. `headrace cdc run` runs it: first a snapshot of all tables, then every change.

    \b
    headrace cdc add notes --from sqlite:///notes.db
    headrace cdc add shop --from sqlite:////srv/shop.db --tables 'order*' --keep both --keep 'order_log=all'
    headrace cdc add shop --from postgresql://headrace@127.0.0.1/shop --tables 'public.*'
    headrace cdc add crm --from mysql://headrace:secret@127.0.0.1:3306/crm
    headrace cdc add orders --from postgresql://headrace@127.0.0.1/shop --outbox public.outbox
    """
    from headrace.cdc.capture import Capture
    from headrace.cdc.outbox.definition import TOPIC_PATTERN, Outbox

    default, by_table = _keep(keep or [])
    capture = Capture(
        name=name,
        address=source,
        tables=tuple(tables or ()),
        keep=default,
        keep_by_table=by_table,
        schemas=schemas,
        partitions=partitions,
        outbox=None
        if outbox is None
        else Outbox(table=outbox, topic=outbox_topic or TOPIC_PATTERN, delete=outbox_delete),
    )
    opened = capture.open_source()
    try:
        found = opened.check()
    finally:
        opened.close()
    if capture.outbox is not None:
        _check_outbox(capture.address, capture.outbox, found)
    capture.check_keep(found)
    _captures(data_dir).add(capture)
    show(
        AddedCapture(name=name, tables=found),
        format,
        f"added capture {name}: {', '.join(found)}\n`headrace cdc run {name}` runs it",
    )


@app.command()
def run(
    names: Names = None,
    once: Annotated[
        bool, typer.Option("--once", help="Write everything that is committed so far, then end.")
    ] = False,
    bootstrap: Bootstrap = None,
    data_dir: DataDir = None,
) -> None:
    """Run captures until Ctrl-C, or once. A database or a broker that is away is waited for.

    \b
    headrace cdc run
    headrace cdc run notes --once
    """
    from headrace.cdc.errors import BadCapture
    from headrace.cdc.runner import CaptureRun

    captures = _captures(data_dir)
    chosen = names or captures.names()
    if not chosen:
        raise BadCapture("there are no captures", hint="`headrace cdc add` adds one")
    folders = {name: captures.folder(name) for name in chosen}
    for name, folder in folders.items():
        if folder.is_paused():
            raise BadCapture(f"capture {name} is paused", hint=f"headrace cdc resume {name}")
    cluster = connect(bootstrap)
    with Stopping() as stopping:
        runs = [
            CaptureRun(
                folder.definition(), folder, cluster, once=once, is_stopping=lambda: stopping.is_wanted
            )
            for folder in folders.values()
        ]
        failed = _run_all(dict(zip(chosen, runs, strict=True)))
    if failed is not None:
        raise failed
    if stopping.is_wanted:
        raise typer.Exit(stopping.exit_code)


@app.command("list")
def list_captures(format: Format = "text", data_dir: DataDir = None) -> None:
    """List captures and their states.

    \b
    headrace cdc list
    headrace cdc list --format json
    """
    captures = _captures(data_dir)
    listed = []
    for name in captures.names():
        folder = captures.folder(name)
        status = folder.status()
        listed.append(
            ListedCapture(
                name=name,
                source=redacted(folder.definition().address),
                state=status.state.value,
                events=status.events,
                last_change=_time(status.committed_ms),
            )
        )
    show_rows(listed, format, empty="no captures yet: `headrace cdc add NAME --from ADDRESS` adds one")


@app.command()
def status(name: Name, format: Format = "text", data_dir: DataDir = None) -> None:
    """Show what a capture does: state, counts, lag, progress of snapshots, the last error.

    \b
    headrace cdc status notes
    """
    folder = _captures(data_dir).folder(name)
    definition, found = folder.definition(), folder.status()
    report = CaptureReport(
        name=name,
        source=redacted(definition.address),
        tables=list(definition.tables),
        keep=", ".join([definition.keep, *("=".join(each) for each in definition.keep_by_table)]),
        state=found.state.value,
        events=found.events,
        transactions=found.transactions,
        last_change=_time(found.committed_ms),
        lag_bytes=found.lag_bytes,
        dead_letters=found.rejected,
        error=found.error,
        snapshots=[
            TableProgress(
                table=each.table,
                rows_read=each.rows_read,
                rows_total=each.rows_total,
                is_done=each.is_done,
            )
            for each in found.snapshots
        ],
    )
    show(report, format, lambda: _print_report(report))


@app.command()
def pause(name: Name, format: Format = "text", data_dir: DataDir = None) -> None:
    """Stop a capture until it is resumed. The database keeps its changes meanwhile, which costs disk space.

    \b
    headrace cdc pause notes
    """
    _captures(data_dir).folder(name).pause()
    _show_done(name, f"paused capture {name}", format)


@app.command()
def resume(name: Name, format: Format = "text", data_dir: DataDir = None) -> None:
    """Let a paused capture run again. `headrace cdc run` continues where it stopped.

    \b
    headrace cdc resume notes
    """
    _captures(data_dir).folder(name).resume()
    _show_done(name, f"resumed capture {name}; `headrace cdc run {name}` runs it", format)


@app.command()
def snapshot(
    name: Name,
    tables: Annotated[list[str], typer.Argument(metavar="TABLE...", help="Tables to read again.")],
    format: Format = "text",
    data_dir: DataDir = None,
) -> None:
    """Read tables again, while the capture goes on. A capture that does not run reads them when it starts.

    \b
    headrace cdc snapshot notes tags
    """
    from headrace.cdc.errors import BadCapture
    from headrace.names import did_you_mean

    folder = _captures(data_dir).folder(name)
    opened = folder.definition().open_source()
    try:
        known = opened.check()
    finally:
        opened.close()
    for table in tables:
        if table not in known:
            raise BadCapture(
                f"capture {name} has no table {table}",
                hint=did_you_mean(table, known) or f"choose from {', '.join(known)}",
            )
    folder.request_snapshot(tables)
    _show_done(name, f"requested a snapshot of {', '.join(tables)}", format)


@app.command()
def remove(
    name: Name,
    bootstrap: Bootstrap = None,
    format: Format = "text",
    data_dir: DataDir = None,
) -> None:
    """Remove a capture, and what it created in the database. Its topics stay.

    \b
    headrace cdc remove notes
    """
    from headrace.cdc.errors import BadCapture
    from headrace.cdc.publisher import Publisher

    folder = _captures(data_dir).folder(name)
    cluster = connect(bootstrap)
    if not folder.lock.take():
        raise BadCapture(f"capture {name} runs", hint=f"headrace cdc pause {name} first")
    try:
        opened = folder.definition().open_source()
        try:
            opened.remove()
        finally:
            opened.close()
        publisher = Publisher(name, cluster)
        publisher.commit(None)
        publisher.close()
        folder.remove()
    finally:
        folder.lock.release()
    _show_done(name, f"removed capture {name}; its topics stay", format)


@app.command()
def outbox(
    kind: Annotated[str, typer.Option("--for", metavar="KIND", help="postgresql, mysql or sqlite.")],
    table: Annotated[str, typer.Option(help="Its name in the statement.")] = "outbox",
    format: Format = "text",
) -> None:
    """Show the statement that creates an outbox table.

    \b
    headrace cdc outbox --for postgresql
    headrace cdc outbox --for sqlite --table events | sqlite3 shop.db
    """
    from headrace.cdc.outbox.table import create_statement

    statement = create_statement(kind, table)
    show(OutboxStatement(statement=statement), format, statement)


def _captures(data_dir: Path | None) -> Captures:
    from headrace.cdc.capture import Captures
    from headrace.cdc.settings import cdc_settings

    return Captures(cdc_settings(data_dir=data_dir).data_dir)


def _check_outbox(address: str, outbox: Outbox, found: Sequence[str]) -> None:
    from headrace.cdc.errors import BadCapture
    from headrace.cdc.outbox.emptying import OutboxRows
    from headrace.names import did_you_mean

    if outbox.table not in found:
        raise BadCapture(
            f"there is no table {outbox.table} for the outbox",
            hint=did_you_mean(outbox.table, found)
            or "`headrace cdc outbox --for postgresql` shows how to create it",
        )
    rows = OutboxRows(address, outbox)
    try:
        rows.check()
    finally:
        rows.close()


def _keep(texts: Sequence[str]) -> tuple[Keep, tuple[tuple[str, Keep], ...]]:
    """What topics keep, and those of some tables instead."""
    default: list[Keep] = []
    by_table: list[tuple[str, Keep]] = []
    for text in texts:
        pattern, separator, keep = text.rpartition("=")
        match keep:
            case "latest" | "all" | "both":
                if pattern:
                    by_table.append((pattern, keep))
                elif not separator:
                    default.append(keep)
                else:
                    raise typer.BadParameter(f"{text!r} names no table", param_hint="--keep")
            case _:
                raise typer.BadParameter(f"{keep!r} is none of latest, all and both", param_hint="--keep")
    if len(default) > 1:
        raise typer.BadParameter(
            f"{' and '.join(default)} are both for all tables; name the tables of one: 'audit_*={default[1]}'",
            param_hint="--keep",
        )
    return (default or ["latest"])[0], tuple(by_table)


def _run_all(runs: dict[str, CaptureRun]) -> Exception | None:
    """Run each in a thread of its own; one that fails does not stop the others. Returns the first failure."""
    failures: list[Exception] = []

    def run_one(name: str, run: CaptureRun) -> None:
        try:
            run.run()
        except Exception as error:
            failures.append(error)
            note(f"capture {name} failed: {error}")
        else:
            note(f"capture {name}: {run.status.events:,} events")

    threads = [threading.Thread(target=run_one, args=each, daemon=True) for each in runs.items()]
    for thread in threads:
        thread.start()
    with SnapshotScreen() as screen:
        for thread in threads:
            while thread.is_alive():
                thread.join(WAIT_S)  # so that signals are handled meanwhile
                screen.update({name: run.status.snapshots for name, run in runs.items()})
    return failures[0] if failures else None


def _print_report(report: CaptureReport) -> None:
    fields: Sequence[tuple[str, object]] = [
        ("source", report.source),
        ("tables", report.tables or "all"),
        ("keep", report.keep),
        ("state", report.state),
        ("events", report.events),
        ("transactions", report.transactions),
        ("last change", report.last_change),
        ("lag, bytes", report.lag_bytes),
        ("dead letters", report.dead_letters),
    ]
    print_table(("", report.name), fields)
    if report.error:
        typer.echo(f"error: {report.error}")
    if report.snapshots:
        typer.echo()
        print_table(
            ("table", "rows read", "rows", "state"),
            [
                (each.table, each.rows_read, each.rows_total, "done" if each.is_done else "reading")
                for each in report.snapshots
            ],
        )


def _show_done(name: str, done: str, format: Format) -> None:
    show(ChangedCapture(name=name, done=done), format, done)


def _time(timestamp_ms: int | None) -> str | None:
    return None if timestamp_ms is None else format_time(timestamp_ms)
