"""`headrace gateway`: topics over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.arguments import parse_pairs
from headrace.cli.command import Bootstrap, command_app, connect
from headrace.cli.edge.options import Overload
from headrace.cli.output import note
from headrace.errors import HeadraceError
from headrace.kafka.settings import parse_address

app = command_app()


@app.command()
def gateway(
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Address to listen on; port 0 is a free one. Default: 127.0.0.1:8082."
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow an address that other machines reach.")
    ] = False,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--cors-origin",
            metavar="ORIGIN",
            help="Pages that may use the gateway: https://shop.example; repeatable.",
        ),
    ] = None,
    overload: Overload = None,
    registry: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Another schema registry, to use instead of the one that the gateway serves."
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir",
            help="Folder of webhooks, buffers and alerts. Default: data_dir of [edge] and [alert] in headrace.toml, "
            "else data.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set any setting of [gateway]; repeatable."),
    ] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Serve topics over HTTP: write, read, subscribe by server-sent events or WebSockets; queues; schemas; webhooks.

    \b
    headrace gateway                               http://127.0.0.1:8082/docs lists the paths
    curl -d '{"page": "/"}' -H 'Content-Type: application/json' 127.0.0.1:8082/topics/clicks
    curl 127.0.0.1:8082/topics/clicks/records
    curl -N '127.0.0.1:8082/topics/clicks/stream?from=earliest'
    curl -X POST '127.0.0.1:8082/queues/clicks/receive?group=workers&wait=20s'
    curl 127.0.0.1:8082/subjects                   the registry, for schema.registry.url of serializers
    headrace webhook in add github --topic pushes --secret-stdin          then POST /webhooks/github
    """
    from headrace.alerts.settings import alert_settings
    from headrace.edges.settings import edge_settings
    from headrace.gateway.settings import gateway_settings

    try:
        from headrace.gateway.server import serve
    except ModuleNotFoundError as error:
        raise HeadraceError(
            f"{error.name} is not installed", hint='pip install "headrace[http]" for `headrace gateway`'
        ) from error

    flags: dict[str, Any] = {**parse_pairs(set_ or (), option="--set")}
    if listen is not None:
        flags["host"], flags["port"] = parse_address(listen)
    if insecure:
        flags["insecure"] = True
    if cors_origin:
        flags["cors_origins"] = ",".join(cors_origin)
    if registry is not None:
        flags["registry"] = registry
    settings = gateway_settings(flags)
    serve(
        connect(bootstrap),
        settings,
        edge=edge_settings(overload=overload, data_dir=data_dir),
        alerts_dir=alert_settings(data_dir=data_dir).data_dir,
        on_ready=lambda url: print(f"headrace gateway ready at {url}", flush=True),
        on_problem=note,
    )
