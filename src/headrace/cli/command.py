"""What commands share: how they are declared, and the cluster that they talk to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.kafka.settings import client_settings, require_broker

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster


def command_app(**options: Any) -> typer.Typer:
    """The app of a command."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, **options)


def command_group(help: str) -> typer.Typer:
    """The app of a group of commands; without a command it shows its help."""
    return command_app(no_args_is_help=True, help=help)


def bootstrap_option(help: str) -> Any:
    return typer.Option("--bootstrap", "--bootstrap-server", "-b", metavar="HOST:PORT", help=help)


Bootstrap = Annotated[
    str | None,
    bootstrap_option(
        "Broker to talk to. Default: $HEADRACE_BOOTSTRAP, else [client] bootstrap in headrace.toml, "
        "else 127.0.0.1:9092."
    ),
]
RegistryAddress = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        help="The schema registry. Default: $HEADRACE_REGISTRY, else [client] registry in headrace.toml, else "
        "http://127.0.0.1:8082.",
    ),
]
JobName = Annotated[str, typer.Argument(metavar="NAME", help="The job's name.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Folder with the jobs' checkpoints. Default: [pipeline] data_dir in headrace.toml, else data.",
    ),
]
JobsDataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        metavar="FOLDER",
        help="Folder with the jobs' checkpoints, or its address. Default: [pipeline] data_dir in headrace.toml, else "
        "data.",
    ),
]
DeleteConfigs = Annotated[
    list[str] | None,
    typer.Option("--delete-config", metavar="NAME", help="Reset to the default; repeatable."),
]


def connect(bootstrap: str | None, *, timeout_s_max: float = float("inf")) -> Cluster:
    """The cluster of `--bootstrap` or of the settings, after a check that a broker listens there."""
    from headrace.kafka.cluster import Cluster

    settings = client_settings(bootstrap)
    timeout_s = min(settings.timeout_s, timeout_s_max)
    require_broker(settings.bootstrap, timeout_s)
    # The client's own error lines would mix with the command's output.
    config = {"client.id": "headrace-cli", "error_cb": lambda _error: None}
    return Cluster(settings.bootstrap, timeout_s=timeout_s, config=config)
