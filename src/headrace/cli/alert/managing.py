"""`headrace alert list`, `show`, `remove`, `acknowledge`, `test`, `keys` and `run`."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from headrace.alerts.catalog import Acknowledgement, new_id
from headrace.alerts.errors import BadAlert, DeliveryFailed
from headrace.alerts.key_state import Phase
from headrace.alerts.message import sample
from headrace.alerts.rendering import rendered
from headrace.alerts.silences import parse_matchers
from headrace.alerts.state_log import read_state
from headrace.alerts.targets.opening import open_sender, shown_address
from headrace.cli.alert.results import ChangedAlert, ListedAlert, PushKeys, Tested
from headrace.cli.alert.shared import AlertDataDir, AlertName, KeyMatchers, alerts_of, condition_text, shown
from headrace.cli.command import Bootstrap, RegistryAddress, connect
from headrace.cli.output import Format, note, print_json, show, show_rows
from headrace.cli.stopping import Stopping
from headrace.clock import SystemClock

EXIT_NOT_DELIVERED = 1


def list_alerts(format: Format = "text", data_dir: AlertDataDir = None, bootstrap: Bootstrap = None) -> None:
    """List alerts, and how many of their keys fire.

    \b
    headrace alert list
    headrace alert list --format json
    """
    alerts = alerts_of(data_dir)
    names = alerts.names()
    stored = read_state(connect(bootstrap)).alerts if names else {}
    rows = []
    for name in names:
        alert = alerts.get(name)
        found = stored.get(name)
        keys = found.keys.values() if found and found.book and found.book.id == alert.id else ()
        phases = [each.state.phase for each in keys]
        rows.append(
            ListedAlert(
                name=name,
                topic=alert.topic,
                condition=condition_text(alert),
                per=list(alert.per),
                to=shown(alert).to,
                firing=phases.count(Phase.FIRING),
                pending=phases.count(Phase.PENDING),
            )
        )
    show_rows(
        rows, format, empty="no alerts yet: `headrace alert add NAME --topic … --when … --to …` adds one"
    )


def show_alert(name: AlertName, format: Format = "text", data_dir: AlertDataDir = None) -> None:
    """Show the definition of an alert, without passwords.

    \b
    headrace alert show errors
    """
    found = shown(alerts_of(data_dir).get(name))
    show(found, format, lambda: print_json(found))


def remove(name: AlertName, format: Format = "text", data_dir: AlertDataDir = None) -> None:
    """Remove an alert. Its keys that fire are in the history as removed, and send nothing any more.

    \b
    headrace alert remove errors
    """
    alerts_of(data_dir).remove(name)
    show(ChangedAlert(name=name, done="removed"), format, f"removed alert {name}")


def acknowledge(
    name: AlertName,
    key: KeyMatchers = None,
    by: Annotated[str, typer.Option(help="Who acknowledges. Default: the user of this machine.")] = "",
    format: Format = "text",
    data_dir: AlertDataDir = None,
) -> None:
    """Acknowledge what fires now: it is neither repeated nor escalated. It still resolves.

    \b
    headrace alert acknowledge errors
    headrace alert acknowledge errors --key service=checkout --by ann
    """
    alerts = alerts_of(data_dir)
    alerts.get(name)
    alerts.request(
        Acknowledgement(
            id=new_id(),
            alert=name,
            at_ms=SystemClock().now_ms(),
            key=parse_matchers(key or ()),
            by=by or _user(),
        )
    )
    later = (
        "" if alerts.lock.is_taken() else "; the alerts do not run now, so it counts from their next start"
    )
    done = "acknowledged"
    show(ChangedAlert(name=name, done=done), format, f"{done} what fires of alert {name}{later}")


def send_sample(name: AlertName, format: Format = "text", data_dir: AlertDataDir = None) -> None:
    """Send a sample to every target of an alert, those of its escalation included.

    \b
    headrace alert test errors
    """
    alerts = alerts_of(data_dir)
    alert = alerts.get(name)
    message = sample(
        name, alert.topic, f"{alert.id}-test-{new_id()}", alert.per, alert.when, SystemClock().now_ms()
    )
    content = rendered(message, alert.templates)
    if content.problem:
        note(content.problem)
    rows = []
    for target in alert.targets().values():
        try:
            outcome = open_sender(target, alerts.vapid_keys()).send(message, content) or "delivered"
            is_delivered = True
        except (DeliveryFailed, BadAlert) as error:
            outcome, is_delivered = str(error), False
        rows.append(Tested(target=shown_address(target), outcome=outcome, is_delivered=is_delivered))
    show_rows(rows, format, empty="")
    if not all(each.is_delivered for each in rows):
        raise typer.Exit(EXIT_NOT_DELIVERED)


def keys(
    contact: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="mailto: or https: address for the operators of push services."),
    ] = None,
    format: Format = "text",
    data_dir: AlertDataDir = None,
) -> None:
    """Make the keys of web push, or show the public one.

    \b
    headrace alert keys --contact mailto:ops@example.com
    headrace alert keys
    """
    from headrace.alerts.targets.vapid import new_keys

    alerts = alerts_of(data_dir)
    found = alerts.vapid_keys()
    if found is None or contact is not None:
        if not (contact or "").startswith(("mailto:", "https:")):
            raise BadAlert("the keys need a contact", hint="--contact mailto:ops@example.com")
        found = new_keys(contact or "")
        alerts.write_vapid_keys(found)
    show(PushKeys(public_key=found.public, contact=found.contact), format, found.public)


def run(data_dir: AlertDataDir = None, registry: RegistryAddress = None, bootstrap: Bootstrap = None) -> None:
    """Run all alerts of the data folder until Ctrl-C. Alerts that are added or removed meanwhile count.

    \b
    headrace alert run
    headrace alert run --data-dir ./data --bootstrap 127.0.0.1:9092
    """
    from headrace.alerts.runner import AlertsRun
    from headrace.cli.records.registered import has_schemas, registered_reader

    cluster = connect(bootstrap)
    with Stopping() as stopping:
        AlertsRun(
            alerts_of(data_dir),
            cluster,
            is_stopping=lambda: stopping.is_wanted,
            on_ready=lambda count: note(f"headrace alert ready, alerts: {count}"),
            to_json=registered_reader(registry).to_json if has_schemas() else None,
        ).run()
    raise typer.Exit(stopping.exit_code)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
