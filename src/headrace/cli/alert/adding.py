"""`headrace alert add`: the definition of its options."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec
from msgspec.structs import replace

from headrace.alerts.catalog import new_id
from headrace.alerts.definition import Alert, Target, Templates, ValueFormat, check
from headrace.alerts.errors import BadAlert
from headrace.alerts.key_state import Rule
from headrace.alerts.message import sample
from headrace.alerts.notifying import NotifyRule
from headrace.alerts.rendering import check_templates
from headrace.alerts.targets.opening import open_sender
from headrace.cli.alert.shared import AlertDataDir, AlertName, alerts_of, shown
from headrace.cli.command import Bootstrap, connect
from headrace.cli.completion import complete_topics
from headrace.cli.output import Format, note, show
from headrace.cli.records.registered import require_schemas
from headrace.clock import SystemClock
from headrace.durations import parse_duration_ms
from headrace.kafka.errors import UNKNOWN_TOPIC, RequestFailed

ADDRESSES_MAX = 100
"""Lines of a file with addresses."""


def add(
    name: AlertName,
    topic: Annotated[
        str, typer.Option("--topic", "-t", help="The topic to watch.", autocompletion=complete_topics)
    ],
    when: Annotated[
        str, typer.Option(metavar="SQL", help="Condition on the fields of a record: \"level = 'ERROR'\".")
    ] = "",
    per: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD", help="Each value fires and resolves by itself; repeatable."),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="mailto://, http(s)://, webpush://FILE, or an address of apprise; repeatable. It may be seen by "
            "other users of this machine: see --to-file.",
        ),
    ] = None,
    to_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Addresses, one on each line; - is the standard input."),
    ] = None,
    value_format: Annotated[
        ValueFormat,
        typer.Option(help="registry: the records have the id of a schema, in Avro, JSON or Protobuf."),
    ] = "json",
    for_: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="Fire only after it held for so long: 2m."),
    ] = None,
    at_least: Annotated[
        int, typer.Option(min=1, help="Fire only after so many records that meet it, with --within.")
    ] = 1,
    within: Annotated[str | None, typer.Option(metavar="DURATION", help="The time of --at-least.")] = None,
    absent_for: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Fire if there was no record (that meets --when) of the key for so long."
        ),
    ] = None,
    resolve_when: Annotated[
        str | None,
        typer.Option(
            metavar="SQL", help="Resolve by a record that meets this. Default: one that does not meet --when."
        ),
    ] = None,
    resolve_after: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Resolve when no record has met --when for so long."),
    ] = None,
    group_by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD", help="A message for each value. Default: one for all keys; repeatable."
        ),
    ] = None,
    group_wait: Annotated[
        str, typer.Option(metavar="DURATION", help="A message waits for more keys for so long.")
    ] = "1s",
    group_interval: Annotated[
        str, typer.Option(metavar="DURATION", help="Between two messages of a group.")
    ] = "10s",
    cool_down: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="After a message, none about another firing of the key."),
    ] = None,
    repeat: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Send it again as long as it fires and is not acknowledged."),
    ] = None,
    escalate_after: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Escalate what is neither acknowledged nor resolved."),
    ] = None,
    escalate_to: Annotated[
        list[str] | None, typer.Option(metavar="ADDRESS", help="Whom an escalation notifies; repeatable.")
    ] = None,
    escalate_to_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Addresses of an escalation, one on each line.")
    ] = None,
    retry_for: Annotated[
        str, typer.Option(metavar="DURATION", help="A target that takes nothing is tried for so long.")
    ] = "6h",
    template_title: Annotated[str, typer.Option(metavar="JINJA", help="The title of a message.")] = "",
    template_body: Annotated[str, typer.Option(metavar="JINJA", help="The text of a message.")] = "",
    template_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A template of the text; one that ends with .html is HTML of a mail."
        ),
    ] = None,
    from_: Annotated[
        str,
        typer.Option("--from", metavar="earliest|latest", help="Which records of the topic count, too."),
    ] = "latest",
    format: Format = "text",
    data_dir: AlertDataDir = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Add an alert. `headrace alert run` runs all of them.

    \b
    headrace alert add errors --topic app-logs --when "level = 'ERROR'" --per service --resolve-after 5m \\
        --to 'mailto://127.0.0.1:25?to=ann@example.com'
    headrace alert add slow --topic requests --when "request.ms > 500" --at-least 5 --within 1m \\
        --to-file addresses.txt
    headrace alert add quiet --topic heartbeats --per host --absent-for 5m --to 'https://ops.example/hook#whsec_…'
    """
    if from_ not in ("earliest", "latest"):
        raise typer.BadParameter("choose earliest or latest", param_hint="--from")
    now_ms = SystemClock().now_ms()
    alert = Alert(
        name=name,
        id=new_id(),
        topic=topic,
        created_ms=now_ms,
        when=when,
        resolve_when=resolve_when or "",
        per=tuple(per or ()),
        value_format=value_format,
        rule=Rule(
            for_ms=_ms(for_) or 0,
            at_least=at_least,
            within_ms=_ms(within) or 0,
            resolve_after_ms=_ms(resolve_after),
            has_resolve_when=bool(resolve_when),
            absent_for_ms=_ms(absent_for),
        ),
        group_by=tuple(group_by or ()),
        notify=NotifyRule(
            group_wait_ms=_ms(group_wait) or 0,
            group_interval_ms=_ms(group_interval) or 0,
            cool_down_ms=_ms(cool_down) or 0,
            repeat_ms=_ms(repeat),
            escalate_after_ms=_ms(escalate_after),
        ),
        to=_targets((*(to or ()), *_addresses(to_file))),
        escalate_to=_targets((*(escalate_to or ()), *_addresses(escalate_to_file))),
        templates=_templates(template_title, template_body, template_file),
        retry_for_ms=_ms(retry_for) or 0,
    )
    check(alert)
    if value_format == "registry":
        require_schemas()
    check_templates(alert.templates, sample(name, topic, "sample", alert.per, when, now_ms))
    alerts = alerts_of(data_dir)
    for target in alert.targets().values():
        open_sender(target, alerts.vapid_keys())
    if name in alerts.names():
        raise BadAlert(f"there is an alert {name} already", hint=f"`headrace alert remove {name}` removes it")
    alert = _started(alert, bootstrap, from_)
    alerts.add(alert)
    show(
        shown(alert),
        format,
        f"added alert {name}: {', '.join(shown(alert).to)}\n`headrace alert run` runs it",
    )


def _started(alert: Alert, bootstrap: str | None, from_: str) -> Alert:
    """With the offsets from which records count, so that none is missed before the alert runs."""
    cluster = connect(bootstrap)
    try:
        partitions = cluster.partitions(alert.topic)
    except RequestFailed as error:
        if error.code != UNKNOWN_TOPIC:
            raise
        note(f"there is no topic {alert.topic} yet; all its records will count")
        return alert
    if from_ == "earliest":
        found = cluster.earliest(partitions)
    else:
        # A transaction that is open now becomes visible later, so its records count.
        found = cluster.offsets(partitions, OffsetSpec.latest(), isolation=IsolationLevel.READ_COMMITTED)
    return replace(alert, start={str(each.number): offset for each, offset in found.items()})


def _ms(text: str | None) -> int | None:
    return None if text is None else parse_duration_ms(text)


def _addresses(file: str | None) -> list[str]:
    """The lines of a file; empty ones and those that begin with # do not count."""
    if file is None:
        return []
    text = sys.stdin.read() if file == "-" else _read(Path(file))
    lines = [line.strip() for line in text.splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    if not found or len(found) > ADDRESSES_MAX:
        raise BadAlert(f"{file} has {len(found)} addresses", hint="one on each line")
    return found


def _targets(addresses: Iterable[str]) -> tuple[Target, ...]:
    found = []
    for address in addresses:
        scheme, _, file = address.partition("://")
        if scheme == "webpush":
            target = Target(id=new_id(), address="webpush://subscription", subscription=_read(Path(file)))
        else:
            target = Target(id=new_id(), address=address)
        found.append(target)
    return tuple(found)


def _templates(title: str, body: str, file: Path | None) -> Templates:
    text = "" if file is None else _read(file)
    if file is not None and file.suffix in (".html", ".htm"):
        return Templates(title=title, body=body, html=text)
    if body and text:
        raise BadAlert(
            "--template-body and --template-file are both set", hint="a file ending with .html is HTML"
        )
    return Templates(title=title, body=body or text)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadAlert(f"{path} can't be read: {error}", hint="check the path") from error
