"""`headrace alert silence`: for a time, nothing is sent."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.alerts.catalog import new_id
from headrace.alerts.errors import BadAlert
from headrace.alerts.silences import Silence, parse_matchers
from headrace.cli.alert.results import ChangedAlert, ListedSilence
from headrace.cli.alert.shared import AlertDataDir, KeyMatchers, alerts_of
from headrace.cli.command import command_group
from headrace.cli.output import Format, format_time, show, show_rows
from headrace.clock import SystemClock
from headrace.durations import parse_duration_ms
from headrace.times import parse_time_ms

app = command_group("For a time, alerts and keys that match send nothing. The history still has them.")


@app.command()
def add(
    for_: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long: 2h.")],
    alert: Annotated[str, typer.Option(metavar="PATTERN", help="Names of alerts. Default: all.")] = "*",
    key: KeyMatchers = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="When it begins. Default: now.")
    ] = None,
    comment: Annotated[str, typer.Option(help="Why.")] = "",
    by: Annotated[str, typer.Option(help="Who.")] = "",
    format: Format = "text",
    data_dir: AlertDataDir = None,
) -> None:
    """Add a silence. What fires meanwhile and still fires at its end is notified then.

    \b
    headrace alert silence add --for 2h --comment maintenance
    headrace alert silence add --alert errors --key 'service=check*' --for 30m
    """
    now_ms = SystemClock().now_ms()
    start_ms = now_ms if start is None else parse_time_ms(start, now_ms)
    duration_ms = parse_duration_ms(for_)
    if duration_ms == 0 or start_ms + duration_ms <= now_ms:
        raise BadAlert("the silence would be over already", hint="--for 2h")
    alerts = alerts_of(data_dir)
    silence = Silence(
        id=new_id(),
        start_ms=start_ms,
        end_ms=start_ms + duration_ms,
        alert=alert,
        key=parse_matchers(key or ()),
        comment=comment,
        by=by,
    )
    alerts.add_silence(silence)
    show([_listed(silence)], format, f"silence {silence.id} until {format_time(silence.end_ms)}")


@app.command("list")
def list_silences(format: Format = "text", data_dir: AlertDataDir = None) -> None:
    """List the silences that are not over.

    \b
    headrace alert silence list
    """
    found = alerts_of(data_dir).silences(SystemClock().now_ms())
    show_rows([_listed(each) for each in found], format, empty="no silences")


@app.command()
def remove(
    silence: Annotated[str, typer.Argument(metavar="ID", help="Of the silence.")],
    format: Format = "text",
    data_dir: AlertDataDir = None,
) -> None:
    """End a silence now.

    \b
    headrace alert silence remove 4f1c2b3a9d8e
    """
    alerts_of(data_dir).remove_silence(silence)
    show(ChangedAlert(name=silence, done="removed"), format, f"removed silence {silence}")


def _listed(silence: Silence) -> ListedSilence:
    return ListedSilence(
        id=silence.id,
        alert=silence.alert,
        key=dict(silence.key),
        start=format_time(silence.start_ms),
        end=format_time(silence.end_ms),
        comment=silence.comment,
        by=silence.by,
    )
