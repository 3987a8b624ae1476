"""`headrace alert status` and `headrace alert history`: what the log has."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import typer

from headrace.alerts.catalog import Alerts
from headrace.alerts.history import HistoryEvent, read_history
from headrace.alerts.key_state import Phase
from headrace.alerts.keys import values_from
from headrace.alerts.notifying import Tracked
from headrace.alerts.silences import Silence, matches_key, parse_matchers, shown, silenced_until
from headrace.alerts.state_log import Stored, read_state
from headrace.cli.alert.results import AlertStatus, HistoryLine, StatusCounts, StatusKey
from headrace.cli.alert.shared import AlertDataDir, KeyMatchers, alerts_of
from headrace.cli.command import Bootstrap, connect
from headrace.cli.output import Format, ended_by_closed_pipe, format_time, print_table, show
from headrace.clock import SystemClock
from headrace.printable import printable_json
from headrace.times import parse_time_ms

KEYS_MAX = 1_000
"""That `status` lists; the others are counted."""


def status(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="An alert; by default all.")] = None,
    format: Format = "text",
    data_dir: AlertDataDir = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Show which keys are pending, fire, or are silenced, and since when; and what was counted.

    \b
    headrace alert status
    headrace alert status errors --format json
    """
    alerts = alerts_of(data_dir)
    if name is not None:
        alerts.get(name)
    report = _report(alerts, read_state(connect(bootstrap)), [name] if name else alerts.names())
    show(report, format, lambda: _print(report))


def _report(alerts: Alerts, stored: Stored, names: list[str]) -> AlertStatus:
    now_ms = SystemClock().now_ms()
    silences = alerts.silences(now_ms)
    waiting = Counter(each.message.alert for each in stored.waiting.values())
    keys: list[StatusKey] = []
    counts = []
    for name in names:
        found = stored.alerts.get(name)
        if found is None or found.book is None:
            continue
        keys += [
            _status_key(name, key, tracked, silences, now_ms)
            for key, tracked in found.keys.items()
            if tracked.state.phase is not Phase.IDLE
        ]
        fields = msgspec.structs.asdict(found.book.counts)
        counts.append(StatusCounts(alert=name, waiting=waiting[name], **fields))
    keys.sort(key=lambda each: (each.alert, each.since))
    runner = alerts.status()
    return AlertStatus(
        state=runner.state,
        error=runner.error,
        keys=keys[:KEYS_MAX],
        keys_cut=max(len(keys) - KEYS_MAX, 0),
        alerts=counts,
    )


def _status_key(name: str, key: str, tracked: Tracked, silences: list[Silence], now_ms: int) -> StatusKey:
    values, firing = values_from(key), tracked.firing
    state = tracked.state.phase.value
    if firing is not None:
        if silenced_until(silences, name, values, now_ms) is not None:
            state = "silenced"
        elif firing.acknowledged_ms is not None:
            state = "acknowledged"
    notified_ms = None if firing is None else firing.notified_ms
    return StatusKey(
        alert=name,
        key=values,
        state=state,
        since=format_time(tracked.state.since_ms),
        notified=None if notified_ms is None else format_time(notified_ms),
        by="" if firing is None else firing.acknowledged_by,
    )


def _print(report: AlertStatus) -> None:
    error = f": {report.error}" if report.error else ""
    print(f"alerts: {report.state}{error}")
    if report.keys:
        rows = [
            (each.alert, _key_text(each.key), each.state, each.since, each.notified, each.by)
            for each in report.keys
        ]
        print_table(["alert", "key", "state", "since", "notified", "by"], rows)
    else:
        print("nothing fires")
    if report.keys_cut:
        print(f"and {report.keys_cut:,} more keys")
    if report.alerts:
        columns = StatusCounts.__struct_fields__
        print()
        print_table(
            [each.replace("_", " ") for each in columns],
            [[getattr(each, column) for column in columns] for each in report.alerts],
        )


def history(
    alert: Annotated[str | None, typer.Option(help="Only this alert.")] = None,
    key: KeyMatchers = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only from then on: 1h, or 2026-11-15T10:30:00Z.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="The last so many.")] = 100,
    format: Format = "text",
    bootstrap: Bootstrap = None,
) -> None:
    """Show what happened: each change of a key, and each notification with its outcome.

    \b
    headrace alert history
    headrace alert history --alert errors --key service=checkout --since 1h
    headrace consume headrace.alerts --follow
    """
    matchers = parse_matchers(key or ())
    since_ms = 0 if since is None else parse_time_ms(since, SystemClock().now_ms())

    def wanted(event: HistoryEvent) -> bool:
        if alert is not None and event.alert != alert:
            return False
        return event.at_ms >= since_ms and (not matchers or matches_key(matchers, event.key or {}))

    lines = [_line(each) for each in read_history(connect(bootstrap), wanted=wanted, limit=limit)]
    with ended_by_closed_pipe():
        if format == "json":
            for line in lines:
                sys.stdout.write(f"{printable_json(msgspec.to_builtins(line))}\n")
        elif lines:
            print_table(
                ["at", "alert", "event", "key", "about"],
                [
                    (each.at, each.alert, each.event, _key_text(each.key or {}), _about(each))
                    for each in lines
                ],
            )
        else:
            print("no history yet")


def _line(event: HistoryEvent) -> HistoryLine:
    return HistoryLine(
        at=format_time(event.at_ms),
        alert=event.alert,
        event=event.event.value,
        key=None if event.key is None else dict(event.key),
        firing=event.firing,
        since=None if event.since_ms is None else format_time(event.since_ms),
        by=event.by,
        reason=event.reason,
        message=event.message,
        kind=event.kind,
        target=event.target,
        attempt=event.attempt,
        firing_count=event.firing_count,
        resolved_count=event.resolved_count,
        text=event.text,
    )


def _about(line: HistoryLine) -> str:
    parts = [f"firing {line.firing}" if line.firing is not None else ""]
    if line.message:
        parts += [f"message {line.message} ({line.kind})", f"to {line.target}" if line.target else ""]
        if not line.target:
            parts.append(f"{line.firing_count or 0:,} firing, {line.resolved_count or 0:,} resolved")
    if line.attempt and line.attempt > 1:
        parts.append(f"attempt {line.attempt}")
    parts += [f"by {line.by}" if line.by else "", line.reason]
    return ", ".join(filter(None, parts))


def _key_text(key: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={shown(value)}" for name, value in key.items())
