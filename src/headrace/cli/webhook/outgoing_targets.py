"""What the commands of `headrace webhook out` start with: settings, definitions, and the files of a target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.output import note

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster
    from headrace.webhooks.catalog import Catalog
    from headrace.webhooks.outgoing.settings import OutgoingSettings
    from headrace.webhooks.outgoing.state import TargetFolder
    from headrace.webhooks.outgoing.target import Target

LEAVE_S_MAX = 15.0
"""A process that delivers waits for the answers to what is in flight, before it leaves its group."""

Name = Annotated[str, typer.Argument(metavar="NAME", help="The webhook's name.")]
WebhookDataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Folder of the definitions. Default: [webhook_out] data_dir in headrace.toml, else data.",
    ),
]


def name_of_source(topic: str | None, queue: str | None) -> str:
    """The name of a webhook that has none: that of its topic or queue, in lower case."""
    source = topic or queue
    if source is None:
        raise typer.BadParameter("choose the topic or the queue to send", param_hint="--topic, --queue")
    return source.lower().lstrip("._-")


def settings_of(data_dir: Path | None, **flags: str) -> OutgoingSettings:
    from headrace.webhooks.outgoing.settings import outgoing_settings

    return outgoing_settings({**flags, "data_dir": data_dir})


def catalog_of(settings: OutgoingSettings) -> Catalog[Target]:
    from headrace.webhooks.catalog import Catalog
    from headrace.webhooks.outgoing.target import Target

    return Catalog(settings.data_dir, "out", Target)


def folder_of(settings: OutgoingSettings, name: str) -> TargetFolder:
    from headrace.webhooks.outgoing.state import TargetFolder

    return TargetFolder(settings.data_dir, name)


def delete_group(cluster: Cluster, name: str) -> None:
    """A process that delivers for it leaves the group first. The group of a queue is kept, as that of any queue."""
    from confluent_kafka import KafkaError

    from headrace.kafka.errors import RequestFailed
    from headrace.kafka.retries import retry
    from headrace.webhooks.outgoing.target import GROUP_PREFIX

    group = GROUP_PREFIX + name
    try:
        retry(
            lambda: cluster.delete_groups([group], missing_ok=True),
            timeout_s=LEAVE_S_MAX,
            codes=(KafkaError.NON_EMPTY_GROUP,),
        )
    except RequestFailed as error:
        note(f"group {group} is kept: {error}")
