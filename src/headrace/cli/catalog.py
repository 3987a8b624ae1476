"""`headrace catalog`: event types, with their schemas, owners, writers and readers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.command import Bootstrap, command_app, connect
from headrace.cli.output import Format, note, print_table, result, show
from headrace.clock import SystemClock
from headrace.errors import HeadraceError
from headrace.gateway.catalog.model import Catalog, EventSchema, EventType
from headrace.kafka.settings import DEFAULT_REGISTRY, client_settings
from headrace.printable import printable

if TYPE_CHECKING:
    from headrace.gateway.catalog.source import CatalogSource
    from headrace.kafka.cluster import Cluster

app = command_app()
result("catalog")(Catalog)


@app.command()
def catalog(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A topic, or a subject without one; shows its fields too."),
    ] = None,
    search: Annotated[
        str, typer.Option(metavar="WORDS", help="Words in the name, the owner or the description.")
    ] = "",
    registry: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The schema registry. Default: $HEADRACE_REGISTRY, else [client] registry in headrace.toml, else the "
            "topic of the gateway's.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir",
            help="Folder of webhooks in and alerts. Default: data_dir of [edge] and [alert] in headrace.toml, else "
            "data.",
        ),
    ] = None,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """List the event types of a cluster: their schemas, who owns them, and who writes and reads them.

    \b
    headrace catalog
    headrace catalog orders                        its fields
    headrace catalog --search shop --format json
    headrace catalog --registry http://127.0.0.1:8081
    """
    cluster = connect(bootstrap)
    with _source(cluster, registry, data_dir) as source:
        found = source.catalog()
        if name is not None:
            found = Catalog(event_types=(source.event_type(name),), problems=found.problems)
        elif search:
            found = Catalog(event_types=found.found(search), problems=found.problems)
    show(found, format, lambda: _print(found, with_fields=name is not None))


@contextlib.contextmanager
def _source(cluster: Cluster, url: str | None, data_dir: Path | None) -> Iterator[CatalogSource]:
    try:
        from headrace.alerts.settings import alert_settings
        from headrace.edges.settings import edge_settings
        from headrace.gateway.catalog.definitions import Definitions
        from headrace.gateway.catalog.source import CatalogSource
        from headrace.gateway.registry.other import OtherRegistry
        from headrace.gateway.registry.registry import TOPIC, Registry
    except ModuleNotFoundError as error:
        raise HeadraceError(
            f"{error.name} is not installed", hint='pip install "headrace[schemas]" for `headrace catalog`'
        ) from error
    address = client_settings(None, url).registry
    with contextlib.ExitStack() as opened:
        registry: Registry | OtherRegistry | None = None
        if url is not None or address != DEFAULT_REGISTRY:
            registry = OtherRegistry(address)
        elif TOPIC in cluster.topics():
            registry = opened.enter_context(contextlib.closing(Registry.open(cluster.bootstrap)))
        definitions = Definitions(
            webhooks_dir=edge_settings(data_dir=data_dir).data_dir,
            alerts_dir=alert_settings(data_dir=data_dir).data_dir,
        )
        yield CatalogSource(cluster, registry, SystemClock(), definitions)


def _print(found: Catalog, *, with_fields: bool) -> None:
    for problem in found.problems:
        note(problem)
    if not found.event_types:
        print("no event types")
    elif with_fields:
        _print_event_type(found.event_types[0])
    else:
        columns = ["event type", "schemas", "owner", "written by", "read by"]
        print_table(columns, [_row(each) for each in found.event_types])


def _row(event_type: EventType) -> list[object]:
    return [
        event_type.name,
        [f"{each.part} {each.type} v{each.version}" for each in event_type.schemas] or "-",
        event_type.owner or "-",
        list(map(str, event_type.written_by)) or "-",
        list(map(str, event_type.read_by)) or "-",
    ]


def _print_event_type(event_type: EventType) -> None:
    facts = {
        "event type": event_type.name,
        "description": event_type.description,
        "owner": event_type.owner or "-",
        "contact": event_type.contact,
        "partitions": event_type.partitions,
        "written by": ", ".join(map(str, event_type.written_by)),
        "read by": ", ".join(map(str, event_type.read_by)),
    }
    for fact, value in facts.items():
        print(f"{fact:<12} {printable(str(value or '-'))}")
    for each in event_type.schemas:
        _print_schema(each)


def _print_schema(schema: EventSchema) -> None:
    print()
    if schema.problem:
        note(schema.problem)
    title = (
        f"{schema.part}: {schema.subject}, {schema.type}, id {schema.id}, version {schema.version}, "
        f"{schema.compatibility}"
    )
    rows = [
        (each.path, each.type, "yes" if each.required else "no", each.default or "-", each.doc or "-")
        for each in schema.fields or ()
    ]
    print_table(["field", "type", "required", "default", "meaning"], rows, title=title)
    for each in schema.references:
        print(printable(f"reference {each.name}: {each.subject}, version {each.version}"))
