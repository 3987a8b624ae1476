"""What an alert is: its condition, its keys, its rule, whom it notifies. The content of `alert.json`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from headrace.alerts.errors import BadAlert
from headrace.alerts.key_state import Rule
from headrace.alerts.notifying import NotifyRule
from headrace.conditions import parse_condition
from headrace.topic_names import check_topic_name

NAME_LENGTH_MAX = 60
"""A name is in message ids and keys of records."""

AT_LEAST_MAX = 1_000
"""The times of so many records are kept for each key."""

TARGETS_MAX = 20
"""Each has a copy of every message, and a thread while it is sent."""

FIELDS_MAX = 10
TEMPLATE_CHARS_MAX = 20_000

RETRY_FOR_MS = 6 * 3_600_000

ValueFormat = Literal["json", "registry"]
"""Of the records: JSON, or Avro, JSON or Protobuf with the id of a schema."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_PATH = re.compile(r"[^.\s]+(\.[^.\s]+)*")


class Target(Struct, frozen=True, kw_only=True):
    id: str
    """random; records of the log have it instead of the address, which may have a password"""
    address: str
    subscription: str = ""
    """of web push: what the browser gave, as JSON"""


class Templates(Struct, frozen=True, kw_only=True, omit_defaults=True):
    title: str = ""
    body: str = ""
    html: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.title or self.body or self.html)


class Alert(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    id: str
    """random: an alert that is removed and added again is another one"""
    topic: str
    created_ms: int
    when: str = ""
    resolve_when: str = ""
    per: tuple[str, ...] = ()
    """fields whose values are the key; empty: all records have one key"""
    value_format: ValueFormat = "json"
    rule: Rule = Rule()
    group_by: tuple[str, ...] = ()
    notify: NotifyRule = NotifyRule()
    to: tuple[Target, ...] = ()
    escalate_to: tuple[Target, ...] = ()
    templates: Templates = Templates()
    retry_for_ms: int = RETRY_FOR_MS
    start: Mapping[str, int] = {}
    """by partition, the offset from which records count; others count from their first one"""

    def targets(self) -> dict[str, Target]:
        return {each.id: each for each in (*self.to, *self.escalate_to)}


def check(alert: Alert) -> None:
    """BadAlert or BadCondition if it cannot run."""
    if not _NAME.fullmatch(alert.name) or len(alert.name) > NAME_LENGTH_MAX:
        raise BadAlert(
            f"{alert.name!r} cannot be the name of an alert",
            hint=f"letters, digits, '_', '.' and '-', at most {NAME_LENGTH_MAX}, beginning with a letter",
        )
    check_topic_name(alert.topic)
    if not alert.when and alert.rule.absent_for_ms is None:
        raise BadAlert(
            f"alert {alert.name} has no condition", hint="--when \"level = 'ERROR'\", or --absent-for 5m"
        )
    for text in filter(None, (alert.when, alert.resolve_when)):
        parse_condition(text)
    _check_fields(alert)
    _check_rule(alert)
    _check_targets(alert)
    longest = max(map(len, (alert.templates.title, alert.templates.body, alert.templates.html)))
    if longest > TEMPLATE_CHARS_MAX:
        raise BadAlert(f"a template has {longest:,} characters", hint=f"at most {TEMPLATE_CHARS_MAX:,}")


def _check_fields(alert: Alert) -> None:
    for option, paths in (("--per", alert.per), ("--group-by", alert.group_by)):
        if len(paths) > FIELDS_MAX:
            raise BadAlert(f"{option} has {len(paths)} fields", hint=f"at most {FIELDS_MAX}")
        for path in paths:
            if not _PATH.fullmatch(path):
                raise BadAlert(f"{option} {path!r} is not a field", hint="write service, or order.customer")


def _check_rule(alert: Alert) -> None:
    rule = alert.rule
    if not 1 <= rule.at_least <= AT_LEAST_MAX:
        raise BadAlert(f"--at-least {rule.at_least} is out of range", hint=f"1 to {AT_LEAST_MAX:,}")
    if rule.counts != (rule.within_ms > 0):
        raise BadAlert("--at-least and --within belong together", hint="--at-least 5 --within 1m")
    if rule.absent_for_ms is not None and (
        rule.counts or rule.resolve_after_ms is not None or alert.resolve_when
    ):
        raise BadAlert(
            "--absent-for does not go with --at-least, --resolve-when or --resolve-after",
            hint="the next record of the key resolves it",
        )
    for option, duration_ms in (
        ("--absent-for", rule.absent_for_ms),
        ("--repeat", alert.notify.repeat_ms),
        ("--escalate-after", alert.notify.escalate_after_ms),
        ("--resolve-after", rule.resolve_after_ms),
    ):
        if duration_ms is not None and duration_ms < 1:
            raise BadAlert(f"{option} is too short", hint="such as 5m")


def _check_targets(alert: Alert) -> None:
    if not alert.to:
        raise BadAlert(f"alert {alert.name} notifies no target", hint="--to mailto://…, --to https://…")
    if bool(alert.escalate_to) != (alert.notify.escalate_after_ms is not None):
        raise BadAlert(
            "--escalate-after and --escalate-to belong together", hint="--escalate-after 15m --escalate-to …"
        )
    if (count := len(alert.targets())) > TARGETS_MAX:
        raise BadAlert(f"alert {alert.name} has {count} targets", hint=f"at most {TARGETS_MAX}")
