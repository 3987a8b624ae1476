"""`headrace view query`, `follow` and `serve`: reading views."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer
from msgspec import Struct

from headrace.cli.command import Bootstrap, DataDir, command_app, connect
from headrace.cli.output import Format, Shape, ended_by_closed_pipe, note, print_json, print_table, result
from headrace.durations import parse_duration_ms
from headrace.printable import printable_json

if TYPE_CHECKING:
    from headrace.views.following import Step
    from headrace.views.reader import SearchResult
    from headrace.views.view import ViewReader

app = command_app()

Name = Annotated[str, typer.Argument(metavar="NAME", help="The view's name.")]
Selection = Annotated[
    str, typer.Argument(metavar="[SELECTION]", help="WHERE …, ORDER BY … and LIMIT …; by default all rows.")
]


class FoundRow(Struct, frozen=True, kw_only=True):
    row: dict[str, Any]
    score: Annotated[float, "higher is better"]
    highlights: Annotated[dict[str, str], "by column, the words that were found in <b>"]


@result("view query")
class QueriedView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    version: int
    is_rebuilding: Annotated[bool, "another version is built; these rows are of the one that is served"]
    position: Annotated[str | None, "the token of how far the view is, for --at-least; null if unknown"]
    rows: Annotated[list[dict[str, Any]] | None, "of a selection"] = None
    next: Annotated[str | None, "for --page: the next page; missing if there is none"] = None
    total: Annotated[int | None, "of a search: how many rows it found"] = None
    hits: Annotated[list[FoundRow] | None, "of a search: the best rows"] = None
    facets: Annotated[
        dict[str, dict[str, int]] | None, "of a search: by column, how many rows have a value"
    ] = None


class RowChange(Struct, frozen=True, kw_only=True):
    op: Annotated[str, "+ or -"]
    row: dict[str, Any]


@result("view follow", shape=Shape.LINES)
class FollowedStep(Struct, frozen=True, kw_only=True):
    is_snapshot: Annotated[bool, "the whole result"]
    changes: Annotated[list[RowChange], "retractions first"]
    position: Annotated[str | None, "the token of the position after the changes"]
    version: int
    is_rebuilding: bool
    resume: Annotated[str, "for --resume"]


@app.command()
def query(
    name: Name,
    selection: Selection = "",
    search: Annotated[
        str | None, typer.Option("--search", metavar="WORDS", help="Search instead, in views with an index.")
    ] = None,
    facets: Annotated[
        list[str] | None,
        typer.Option("--facet", metavar="COLUMN", help="Of a search: count its values; repeatable."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Rows; LIMIT in the selection wins.")] = None,
    page: Annotated[str | None, typer.Option(metavar="TOKEN", help="`next` of the page before.")] = None,
    at_least: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            help="A position that the rows must include; `now` for the current end of the view's topics.",
        ),
    ] = None,
    wait: Annotated[str, typer.Option(metavar="TIME", help="How long to wait for --at-least.")] = "5s",
    format: Annotated[
        Literal["text", "json", "csv"],
        typer.Option("--format", help="text for people, json and csv for programs."),
    ] = "text",
    bootstrap: Bootstrap = None,
    data_dir: DataDir = None,
) -> None:
    """Read rows of a view, or search it. While it is rebuilt, the version that is served has the rows.

    \b
    headrace view query users_by_city "WHERE city = 'Oslo'"
    headrace view query users_by_city "WHERE users > 10 ORDER BY users DESC LIMIT 20" --format json
    headrace view query users_by_city --at-least now --wait 10s
    headrace view query articles --search 'kafka streams' --facet topic
    """
    with _opened(name, data_dir) as view:
        wait_s = parse_duration_ms(wait) / 1000
        wanted = _position(view, at_least, bootstrap)
        served = view.served()
        queried = QueriedView(
            name=name, version=served.version, is_rebuilding=served.is_rebuilding, position=None
        )
        if search is not None:
            found = view.search(
                search, limit=limit or 10, facets=facets or (), at_least=wanted, wait_s=wait_s
            )
            _show(msgspec.structs.replace(queried, **_of_search(found)), format)
            return
        from headrace.views.selection import PAGE_ROWS

        rows = view.query(selection, page=page, limit=limit or PAGE_ROWS, at_least=wanted, wait_s=wait_s)
        _show(
            QueriedView(
                name=name,
                version=rows.version,
                is_rebuilding=rows.is_rebuilding,
                position=None if rows.position is None else rows.position.token(),
                rows=[dict(row) for row in rows.rows],
                next=rows.next,
            ),
            format,
        )


@app.command()
def follow(
    name: Name,
    selection: Selection = "",
    resume: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", help="`resume` of the last step: skip a result that is known."),
    ] = None,
    format: Format = "text",
    data_dir: DataDir = None,
) -> None:
    """Show the result of a selection, and then each change of it until Ctrl-C: + asserts a row, - retracts one.

    \b
    headrace view follow users_by_city
    headrace view follow users_by_city "WHERE city LIKE 'O%'" --format json
    headrace view follow users_by_city "ORDER BY users DESC LIMIT 10"
    """
    with _opened(name, data_dir) as view, ended_by_closed_pipe():
        for step in view.follow(selection, resume=resume):
            if format == "json":
                print(printable_json(msgspec.to_builtins(_as_json(step), enc_hook=str)), flush=True)
            else:
                for change in step.changes:
                    print(
                        change.op, printable_json(msgspec.to_builtins(change.row, enc_hook=str)), flush=True
                    )


@app.command()
def serve(
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Port 0 takes a free one.")
    ] = "127.0.0.1:8083",
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Allow an address that other machines can reach, without authentication."
        ),
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Serve all views over HTTP until Ctrl-C: rows, search, and followers by server-sent events. See /docs there.

    \b
    headrace view serve
    headrace view serve --listen 127.0.0.1:0
    curl "http://127.0.0.1:8083/views/users_by_city/rows?where=city='Oslo'"
    """
    from headrace.kafka.settings import parse_address
    from headrace.views.errors import BadView

    try:
        from headrace.views.http.server import serve as serve_views
    except ImportError as error:
        raise BadView(
            f"{error.name} is not installed", hint='pip install "headrace[http]" for `headrace view serve`'
        ) from error

    def ready(address: str) -> None:
        print(f"headrace views ready at {address}", flush=True)

    host, port = parse_address(listen)
    serve_views(_views(data_dir), host, port, is_open=insecure, on_ready=ready)


def _views(data_dir: Path | None) -> Any:
    from headrace.pipeline.settings import pipeline_settings
    from headrace.views.catalog import Views

    return Views(pipeline_settings(data_dir=data_dir).local_data_dir)


def _opened(name: str, data_dir: Path | None) -> ViewReader:
    from headrace.views.view import ViewReader

    return ViewReader(_views(data_dir).folder(name))


def _position(view: ViewReader, at_least: str | None, bootstrap: str | None) -> Any:
    if at_least != "now":
        return at_least
    connect(bootstrap)  # fails early, with a hint, if no broker listens there
    return view.newest_position(bootstrap)


def _of_search(found: SearchResult) -> dict[str, Any]:
    hits = [
        FoundRow(row=dict(hit.row), score=hit.score, highlights=dict(hit.highlights)) for hit in found.hits
    ]
    facets = {column: dict(counts) for column, counts in found.facets.items()}
    return {"total": found.total, "hits": hits, "facets": facets}


def _as_json(step: Step) -> FollowedStep:
    return FollowedStep(
        is_snapshot=step.is_snapshot,
        changes=[RowChange(op=change.op, row=dict(change.row)) for change in step.changes],
        position=None if step.position is None else step.position.token(),
        version=step.version,
        is_rebuilding=step.is_rebuilding,
        resume=step.resume,
    )


def _show(queried: QueriedView, format: str) -> None:
    if format == "json":
        print_json(msgspec.to_builtins(queried, enc_hook=str))
        return
    if queried.is_rebuilding:
        note(f"{queried.name} is being rebuilt; this is version {queried.version}, which is served")
    rows = [hit.row for hit in queried.hits] if queried.hits is not None else queried.rows or []
    if format == "csv":
        writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
        if rows:
            writer.writeheader()
        writer.writerows(msgspec.to_builtins(rows, enc_hook=str))
    elif rows:
        _print_rows(queried, rows)
    else:
        print("no rows")
    if queried.next is not None:
        note(f"more rows: --page {queried.next}")


def _print_rows(queried: QueriedView, rows: Sequence[dict[str, Any]]) -> None:
    columns = list(rows[0])
    print_table(columns, [[row.get(column) for column in columns] for row in rows])
    for column, counts in (queried.facets or {}).items():
        print()
        print_table((column, "rows"), list(counts.items()))
