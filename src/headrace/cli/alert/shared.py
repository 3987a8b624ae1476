"""What the commands of `headrace alert` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from headrace.alerts.catalog import Alerts
from headrace.alerts.definition import Alert
from headrace.alerts.settings import alert_settings
from headrace.alerts.targets.opening import shown_address
from headrace.cli.alert.results import ShownAlert
from headrace.cli.output import format_time

AlertName = Annotated[str, typer.Argument(metavar="NAME", help="The alert's name.")]
AlertDataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Folder of the definitions. Default: [alert] data_dir in headrace.toml, else data.",
    ),
]
KeyMatchers = Annotated[
    list[str] | None,
    typer.Option(
        "--key", metavar="FIELD=PATTERN", help="Only keys whose field matches; repeatable. Default: all keys."
    ),
]


def alerts_of(data_dir: Path | None) -> Alerts:
    return Alerts(alert_settings(data_dir=data_dir).data_dir)


def shown(alert: Alert) -> ShownAlert:
    return ShownAlert(
        name=alert.name,
        topic=alert.topic,
        when=alert.when,
        per=list(alert.per),
        rule=msgspec.to_builtins(alert.rule),
        group_by=list(alert.group_by),
        notify=msgspec.to_builtins(alert.notify),
        to=[shown_address(each) for each in alert.to],
        escalate_to=[shown_address(each) for each in alert.escalate_to],
        templates={
            "title": alert.templates.title,
            "body": alert.templates.body,
            "html": alert.templates.html,
        },
        added=format_time(alert.created_ms),
        resolve_when=alert.resolve_when,
        value_format=alert.value_format,
    )


def condition_text(alert: Alert) -> str:
    """The condition and the rule, in a few words."""
    rule = alert.rule
    parts = [alert.when] if alert.when else []
    if rule.absent_for_ms is not None:
        parts.append(f"no record for {short(rule.absent_for_ms)}")
    if rule.counts:
        parts.append(f"{rule.at_least} within {short(rule.within_ms)}")
    if rule.for_ms:
        parts.append(f"for {short(rule.for_ms)}")
    return ", ".join(parts)


def short(duration_ms: int) -> str:
    """90000 as 90s, 120000 as 2m."""
    for unit, length_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if duration_ms and duration_ms % length_ms == 0:
            return f"{duration_ms // length_ms}{unit}"
    return f"{duration_ms}ms"
